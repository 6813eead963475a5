//! Sends random reads of random objects, which random writers change, to
//! kube-apiserver and to apifront. Each difference is a failure.
//!
//! While the writers rest, all answers must mean the same. While they work, two
//! lists may have different versions: then kube-apiserver is asked again for the
//! state at exactly apifront's version. Watches are compared by their events up to
//! the version that both have seen.
//!
//! `APIFRONT_TEST_SEED` and `APIFRONT_TEST_COMPARISONS` replay and lengthen a run. A
//! worker's requests depend only on the seed, except for the versions and tokens
//! that it takes from earlier answers.

mod accept;
mod check;
mod kinds;
mod mutate;
mod parsers;
mod request;
mod selectors;
mod shadow;
mod tokens;
mod watching;
mod world;
mod yaml;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::harness::client::Client;
use crate::harness::volume;
use world::World;

const COMPARISONS: &str = "APIFRONT_TEST_COMPARISONS";
const DEFAULT_COMPARISONS: usize = 6_000;
/// The number of rounds. In each, the writers first work and then rest.
const ROUNDS: usize = 3;
const WRITERS: usize = 3;
const READERS: usize = 8;
/// The number of watchers. A watch lasts a second and costs little.
const WATCHERS: usize = 16;
/// The least share of hits among successful reads and watches. Representations that
/// the cache cannot make are forwarded.
const LEAST_HITS: f64 = 0.45;
const SHOWN_DIFFERENCES: usize = 10;

#[derive(Default)]
struct Tally {
    compared: AtomicUsize,
    watches: AtomicUsize,
    successes: AtomicUsize,
    hits: AtomicUsize,
    events: (AtomicUsize, AtomicUsize),
    bypasses: Mutex<BTreeMap<String, usize>>,
    differences: Mutex<Vec<String>>,
}

impl Tally {
    fn add(&self, cache: &str, success: bool) {
        self.compared.fetch_add(1, Ordering::Relaxed);
        if success {
            self.successes.fetch_add(1, Ordering::Relaxed);
            let hit = cache.starts_with("hit");
            self.hits.fetch_add(usize::from(hit), Ordering::Relaxed);
        }
        let (outcome, _version) = cache.split_once("; rv=").unwrap_or((cache, ""));
        let mut bypasses = self.bypasses.lock();
        *bypasses.entry(outcome.to_owned()).or_default() += 1;
    }

    fn failed(&self) -> bool {
        self.differences.lock().len() >= SHOWN_DIFFERENCES
    }
}

struct Phase<'w> {
    world: &'w World,
    tally: &'w Tally,
    quiet: bool,
    seed: u64,
    /// The value of [`Tally::compared`] at which the phase ends.
    until: usize,
}

impl Phase<'_> {
    fn over(&self) -> bool {
        self.tally.compared.load(Ordering::Relaxed) >= self.until || self.tally.failed()
    }

    /// Returns a worker's random source, and the two servers that it asks.
    fn worker(&self, n: usize) -> (StdRng, Client, Client) {
        let fronts = &self.world.fronts;
        let front = fronts[n % fronts.len()].admin_client();
        (
            StdRng::seed_from_u64(self.seed.wrapping_add(n as u64)),
            self.world.cluster.admin_client(),
            front,
        )
    }

    async fn reader(&self, n: usize) {
        let (mut rng, direct, front) = self.worker(n);
        let memory = &self.world.memory;
        while !self.over() {
            let read = request::read(&mut rng, memory);
            let outcome = check::check(&direct, &front, memory, &read, self.quiet).await;
            self.tally.add(&outcome.cache, outcome.success);
            self.note(n, &read, outcome.difference);
        }
    }

    async fn watcher(&self, n: usize) {
        let (mut rng, direct, front) = self.worker(n);
        let memory = &self.world.memory;
        while !self.over() {
            let read = request::watch(&mut rng, memory, self.quiet);
            let (cache, difference) = if self.quiet {
                let outcome = check::check(&direct, &front, memory, &read, true).await;
                (outcome.cache, outcome.difference)
            } else {
                let compared = watching::check(&direct, &front, memory, &read).await;
                let (right, found) = compared.events;
                let events = &self.tally.events;
                events.0.fetch_add(right, Ordering::Relaxed);
                events.1.fetch_add(found, Ordering::Relaxed);
                if !compared.comparable {
                    continue;
                }
                (compared.cache, compared.difference)
            };
            self.tally.watches.fetch_add(1, Ordering::Relaxed);
            self.tally.add(&cache, true);
            self.note(n, &read, difference);
        }
    }

    fn note(&self, worker: usize, read: &request::Read, difference: String) {
        if !difference.is_empty() {
            let (target, headers, quiet) = (read.target(), &read.headers, self.quiet);
            let mode = ["Strict", "Fresh"][worker % 2];
            let text = format!("{mode} quiet={quiet} {target} {headers:?}\n{difference}");
            self.tally.differences.lock().push(text);
        }
    }

    async fn run(&self) {
        let readers = (0..READERS).map(|n| self.reader(n));
        let watchers = (READERS..READERS + WATCHERS).map(|n| self.watcher(n));
        tokio::join!(join_all(readers), join_all(watchers));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apifront_answers_as_kube_apiserver_does() {
    skip_under_oracle!("kube-apiserver is asked beside apifront in any case");
    let seed = volume::seed("fuzz");
    let wanted = volume::work(COMPARISONS, DEFAULT_COMPARISONS);
    let world = World::start(seed).await;
    let tally = Tally::default();
    let mut written = 0;
    let (mut busy, mut at_rest) = (Duration::ZERO, Duration::ZERO);
    for round in 0..ROUNDS {
        let phase = |quiet: bool| Phase {
            world: &world,
            tally: &tally,
            quiet,
            seed: seed.wrapping_add((2 * round + usize::from(quiet)) as u64 * 1000),
            until: wanted * (2 * round + 1 + usize::from(quiet)) / (2 * ROUNDS),
        };
        let stop = AtomicBool::new(false);
        let started = Instant::now();
        let writers = (0..WRITERS).map(|n| {
            let seed = seed.wrapping_add((round * WRITERS + n) as u64 + 1_000_000);
            world.write(seed, &stop)
        });
        let reads = async {
            phase(false).run().await;
            stop.store(true, Ordering::Relaxed);
        };
        let (counts, ()) = tokio::join!(join_all(writers), reads);
        written += counts.iter().sum::<usize>();
        busy += started.elapsed();
        world.settle().await;
        let started = Instant::now();
        phase(true).run().await;
        at_rest += started.elapsed();
    }
    finish(&tally, wanted, written, busy, at_rest);
    for front in world.fronts {
        front.stop().await;
    }
}

fn finish(tally: &Tally, wanted: usize, written: usize, busy: Duration, at_rest: Duration) {
    let count = |n: &AtomicUsize| n.load(Ordering::Relaxed);
    let share = count(&tally.hits) as f64 / count(&tally.successes).max(1) as f64;
    println!(
        "fuzz: {} comparisons ({} of watches), {written} writes, {busy:.1?} with writers and \
         {at_rest:.1?} without; {:.0} % of what succeeded came from the cache: {:#?}",
        count(&tally.compared),
        count(&tally.watches),
        100.0 * share,
        tally.bypasses.lock(),
    );
    let differences = tally.differences.lock();
    let shown: String = differences.iter().map(|d| format!("{d}\n")).collect();
    assert!(differences.is_empty(), "- direct, + apifront:\n\n{shown}");
    assert!(count(&tally.compared) >= wanted, "too few comparisons");
    assert!(share >= LEAST_HITS, "only {share:.2} came from the cache");
    let (right, found) = (count(&tally.events.0), count(&tally.events.1));
    let enough = found * 10 >= right * 9;
    assert!(right > 100 && enough, "{found} events, {right} directly");
}
