//! Tests reads without a resourceVersion, which ask for the most recent state.
//! Writers use the API server directly, and readers use apifront. Every read is
//! checked against the history. For each key it must show a state no older than the
//! last write acknowledged before the read began, and no newer than the writes begun
//! before its end. A list must be the state of one version. No reader may go back in
//! time.
//!
//! Strict promises all of that; Fresh promises a bound on the lateness of a read. In
//! every mode, a client that writes through apifront reads its own writes there at
//! once.
//!
//! `APIFRONT_TEST_READS` and `APIFRONT_TEST_SEED` lengthen and replay a run.

mod history;
mod own_writes;
mod reader;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::pool::Lease;
use crate::harness::shared::Shared;
use crate::harness::volume;
use history::{History, Read, Seen, Verdict};
use reader::Recorded;

const READS: &str = "APIFRONT_TEST_READS";
const STRICT_READS: usize = 25_000;
const FRESH_READS: usize = 10_000;
/// There are many concurrent readers, so that they share reads.
const READERS: usize = 200;
const CONNECTIONS: usize = 8;
/// The time after its acknowledgement for which a write may be missing from a Fresh
/// read. It is the longest time for which apifront waits for late events before it
/// reads a resource upstream instead.
const FRESH_BOUND: Duration = Duration::from_millis(250);
/// The least share of hits, once the cache is filled.
const LEAST_HITS: f64 = 0.9;

/// Returns a cluster for this suite only, since other suites would influence the
/// times.
fn cluster() -> Arc<Lease> {
    static CLUSTER: Shared<Lease> = Shared::new();
    CLUSTER.get(|| Cluster::leased(&[]))
}

async fn front(cluster: &Cluster, mode: &str) -> Apifront {
    let front = Apifront::start(cluster, |config| {
        config["cache"]["consistency"] = json!(mode);
    })
    .await;
    let path = "/api/v1/configmaps?resourceVersion=0";
    front.warm(&front.admin_client(), path).await;
    front
}

struct Run {
    history: History,
    recorded: Vec<Recorded>,
    took: Duration,
    /// The number of late events that apifront noticed after it had answered without
    /// them.
    admitted: f64,
}

async fn record(mode: &str, wanted: usize) -> Run {
    let seed = volume::seed(mode);
    let cluster = cluster();
    let front = front(&cluster, mode).await;
    let direct = cluster.admin_client();
    let ns = cluster.namespace("linear").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let begin = direct.get(&list).await.expect(200);
    let from = begin["metadata"]["resourceVersion"].as_str();
    let from = from.and_then(|v| v.parse().ok()).expect("a version");

    let clients: Vec<_> = (0..CONNECTIONS).map(|_| front.admin_client()).collect();
    let (done, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let started = Instant::now();
    let readers = (0..READERS).map(|n| {
        let client = clients[n % CONNECTIONS].clone();
        reader::read(client, &list, seed ^ n as u64, &done, wanted)
    });
    let reading = async {
        let recorded = join_all(readers).await;
        let took = started.elapsed();
        stop.store(true, Ordering::Relaxed);
        (recorded, took)
    };
    let writing = async {
        let writers = (0..writer::WRITERS).map(|n| {
            let client = direct.separate();
            writer::write(client, &list, n, seed.wrapping_add(n as u64), &stop)
        });
        let written = join_all(writers).await;
        writer::create(&direct, &list, writer::LAST, true).await;
        written.into_iter().flatten().collect()
    };
    let account = writer::account(direct.separate(), &list, from);
    let ((recorded, took), writes, versions) = tokio::join!(reading, writing, account);
    let broken = [("resource", "configmaps"), ("promise", "broken")];
    let admitted = front.metric("apifront_fresh_late_events_total", &broken);
    let admitted = admitted.await;
    front.stop().await;
    Run {
        history: History { writes, versions },
        recorded,
        took,
        admitted,
    }
}

impl Run {
    /// Returns the lateness of each stale read. Fails if a read shows an impossible
    /// state.
    fn stale(&self, mode: &str) -> Vec<Duration> {
        let mut stale = Vec::new();
        let (mut reads, mut hits) = (0, 0);
        for reader in &self.recorded {
            assert_forward(&reader.reads);
            reads += reader.reads.len();
            hits += reader.hits;
            for read in &reader.reads {
                match self.history.judge(read) {
                    Verdict::Fits => {}
                    Verdict::Stale(late) => stale.push(late),
                    Verdict::Impossible(why) => panic!("{why}: {read:#?}"),
                }
            }
        }
        let writes: usize = self.history.writes.values().map(Vec::len).sum();
        println!(
            "{mode}: {reads} reads ({hits} from the cache) in {:.1?}, {writes} writes, \
             {} stale reads, at most {:.1?} late; {} late events admitted",
            self.took,
            stale.len(),
            stale.iter().max().unwrap_or(&Duration::ZERO),
            self.admitted,
        );
        let share = hits as f64 / reads as f64;
        assert!(share >= LEAST_HITS, "only {share:.2} came from the cache");
        assert!(writes > 100, "only {writes} writes");
        stale
    }
}

/// Fails if a reader's successive reads go back in time.
fn assert_forward(reads: &[Read]) {
    let mut newest_list = 0;
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    for read in reads {
        if let Some(version) = read.version {
            assert!(version >= newest_list, "after {newest_list}: {read:#?}");
            newest_list = version;
        }
        for (key, seen) in &read.keys {
            let before = newest.entry(key).or_default();
            if let Some(Seen { version, .. }) = seen {
                assert!(version >= before, "{key} was at {before}: {read:#?}");
                *before = *version;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_reads_are_linearizable() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let wanted = volume::work(READS, STRICT_READS);
    let run = record("Strict", wanted).await;
    let stale = run.stale("Strict");
    assert!(stale.is_empty(), "{} stale reads", stale.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fresh_reads_keep_their_bound() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let wanted = volume::work(READS, FRESH_READS);
    let run = record("Fresh", wanted).await;
    let stale = run.stale("Fresh");
    let broken: Vec<_> = stale.iter().filter(|late| **late > FRESH_BOUND).collect();
    assert!(broken.is_empty(), "later than {FRESH_BOUND:?}: {broken:?}");
    // apifront measures lateness itself, and must know that it was wrong.
    let known = stale.is_empty() || run.admitted > 0.0;
    assert!(known, "{} stale reads, none admitted", stale.len());
}
