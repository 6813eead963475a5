//! Requests and answers arrive as they were sent.
//!
//! Recorders take the place of API servers and backends. They keep the octets of
//! every request, and answer as planned. Random requests go through apifront in
//! every identity mode, over every protocol, and through two apifronts. [`changes`]
//! and [`answer_changes`] list the allowed changes.
//!
//! `APIFRONT_TEST_SEED` and `APIFRONT_TEST_REQUESTS` replay and lengthen a run. Each
//! request depends only on the seed and its number.

mod answer_changes;
mod answers;
mod changes;
mod check;
mod cluster_state;
mod exchange;
mod faults;
mod fields;
mod generate;
mod go_url;
mod hpack;
mod http1_client;
mod http1_message;
mod http1_server;
mod http2_client;
mod http2_frames;
mod http2_server;
mod huffman;
mod ledger;
mod left_out;
mod outcome;
mod recorder;
mod refusal;
mod request_fields;
mod tally;
mod targets;
mod upgrades;
mod worlds;

use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;

use crate::harness::volume;
use check::Worker;
use ledger::Ledger;
use tally::Tally;
use worlds::World;

const REQUESTS: &str = "APIFRONT_TEST_REQUESTS";
const DEFAULT_REQUESTS: usize = 4_000;
/// The requests of this seed once found an endless answer.
const OWN_SEED: u64 = 12_721_065_006_139_580_812;
/// The number of clients in each world.
const WORKERS: u64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_arrives_and_what_is_answered_returns() {
    skip_under_oracle!("kube-apiserver has no upstream that records");
    let seed = volume::seed_or("recording", OWN_SEED);
    let wanted = volume::work(REQUESTS, DEFAULT_REQUESTS) as u64;
    let ledger = Arc::new(Ledger::default());
    let worlds = World::start_all(&ledger).await;
    let tally = Tally::default();
    let started = Instant::now();
    let count = worlds.len() as u64 * WORKERS;
    let mut workers = Vec::new();
    for (at, world) in worlds.iter().enumerate() {
        for n in 0..WORKERS {
            let first = at as u64 * WORKERS + n;
            workers.push(Worker::new(world, &ledger, &tally, seed, first));
        }
    }
    let runs = workers.iter_mut().map(|worker| worker.run(count, wanted));
    join_all(runs).await;
    drop(workers);
    for world in worlds {
        world.stop().await;
    }
    tally.finish(&ledger, wanted, started.elapsed());
}
