//! Sends the same random reads, with random writers, to an apifront in shadow mode,
//! which compares each answer itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use http::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::request;
use super::world::World;
use crate::harness::volume;

/// The number of comparisons. Its variable is that of the other run, which asks two
/// servers for each comparison.
const DEFAULT_COMPARISONS: usize = 1_500;
const WRITERS: usize = 3;
const READERS: usize = 8;
const WATCHERS: usize = 16;
/// The time in which the cache learns a version while nothing changes.
const HEARS_WITHIN: Duration = Duration::from_secs(75);
/// The most time for all comparisons, whatever their number.
const ENDS_WITHIN: Duration = Duration::from_secs(3_600);
/// The least share of answers that could be compared at one version.
const LEAST_COMPARABLE: f64 = 0.75;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadow_mode_sees_no_difference() {
    skip_under_oracle!("kube-apiserver has no shadow mode");
    let seed = volume::seed("fuzz::shadow");
    let wanted = volume::work(super::COMPARISONS, DEFAULT_COMPARISONS) as u64;
    let shadow = |config: &mut Value| {
        config["cache"] = json!({
            "mode": "Shadow",
            "shadow": { "samplingRatePerMillion": 1_000_000 },
            "selfCheck": { "interval": "5s" },
        });
    };
    let world = World::with(seed, &[&shadow]).await;
    let front = &world.fronts[0];
    let client = front.admin_client();
    let report = || async { client.get("/debug/shadow").await.expect(200) };
    let count = |report: &Value, what: &str| report["comparisons"][what].as_u64().expect("a count");
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let started = Instant::now();
    let writers = (0..WRITERS).map(|n| world.write(seed.wrapping_add(n as u64), &stop));
    let readers = (0..READERS + WATCHERS).map(|n| {
        let (world, stop, asked) = (&world, &stop, &asked);
        async move {
            let mut rng = StdRng::seed_from_u64(seed.wrapping_add(1_000 + n as u64));
            let client = world.fronts[0].admin_client();
            while !stop.load(Ordering::Relaxed) {
                let read = match n < READERS {
                    true => request::read(&mut rng, &world.memory),
                    false => {
                        let anything = rng.random_bool(0.5);
                        request::watch(&mut rng, &world.memory, anything)
                    }
                };
                let headers: Vec<_> = read.headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
                let answer = client.send(Method::GET, &read.target(), &headers, "").await;
                super::check::remember(&world.memory, &read, &[&answer]);
                asked.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let until = async {
        loop {
            let report = report().await;
            let done = count(&report, "matches") + count(&report, "differences");
            if done >= wanted || count(&report, "differences") > 0 {
                stop.store(true, Ordering::Relaxed);
                return;
            }
            assert!(
                started.elapsed() < ENDS_WITHIN,
                "{done} of {wanted} comparisons"
            );
            crate::harness::pace::of_tries(Duration::from_millis(500)).await;
        }
    };
    let (written, _, ()) = tokio::join!(join_all(writers), join_all(readers), until);
    // A comparison may wait for a version that the cache has not seen yet.
    crate::harness::pace::lasting(HEARS_WITHIN).await;
    let report = report().await;
    let not_comparable = report["comparisons"]["notComparable"].clone();
    let compared = count(&report, "matches") + count(&report, "differences");
    println!(
        "{compared} comparisons of {} reads and watches, {} writes, {:.0} s; not comparable: \
         {not_comparable}",
        asked.load(Ordering::Relaxed),
        written.iter().sum::<usize>(),
        started.elapsed().as_secs_f64(),
    );
    for resource in report["resources"].as_array().expect("resources") {
        println!("{}", summary(resource));
    }
    assert_eq!(
        report["differences"],
        json!([]),
        "{:#}",
        report["differences"]
    );
    assert_eq!(count(&report, "differences"), 0);
    let left_out: u64 = not_comparable
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, count)| count.as_u64())
        .sum();
    let share = compared as f64 / (compared + left_out) as f64;
    assert!(
        share >= LEAST_COMPARABLE,
        "only {share:.2} could be compared"
    );
    for front in world.fronts {
        front.stop().await;
    }
}

fn summary(resource: &Value) -> String {
    let kinds = resource["comparisons"]
        .as_array()
        .expect("comparisons")
        .iter();
    let kinds: Vec<_> = kinds
        .map(|one| {
            format!(
                "{} {} {}",
                one["verb"], one["representation"], one["matches"]
            )
        })
        .collect();
    format!(
        "{}: would answer {}, forward {}, self-check {}; {}",
        resource["resource"],
        resource["wouldAnswer"],
        resource["wouldForward"],
        resource["selfCheck"]["result"],
        kinds.join(", ")
    )
}
