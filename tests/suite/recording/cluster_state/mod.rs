//! A forwarded request has the same effect on the cluster as a direct one.
//!
//! Random requests about a few objects go to kube-apiserver and to apifront, each to
//! its own namespace. After each of them the status, the body, the connection and
//! everything in both namespaces must be equal.
//!
//! `APIFRONT_TEST_SEED` and `APIFRONT_TEST_WRITES` replay and lengthen a run.

mod cases;
mod connections;
mod normal;
mod side;
mod writes;

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::volume;
use side::{Outcomes, Side};

const WRITES: &str = "APIFRONT_TEST_WRITES";
const DEFAULT_WRITES: usize = 1_000;
const OWN_SEED: u64 = 1;
/// The number of shown differences, after which the run ends.
const SHOWN: usize = 8;

/// The two servers, each with its namespace.
struct Both {
    direct: Side,
    front: Side,
}

impl Both {
    async fn new() -> Self {
        let (cluster, front) = (Cluster::shared(), Apifront::shared());
        Self {
            direct: Side::new(cluster.admin_client(), cluster.admin_client()).await,
            front: Side::new(front.admin_client(), cluster.admin_client()).await,
        }
    }

    /// Sends the same request to both, and returns the difference.
    async fn ask(&mut self, write: &writes::Write) -> (u16, Option<String>) {
        let (direct, front) = tokio::join!(self.direct.ask(write), self.front.ask(write));
        let status = direct.status;
        let outcomes = Outcomes { direct, front };
        (status, outcomes.difference(write))
    }

    async fn create_all(&mut self) {
        for side in [&mut self.direct, &mut self.front] {
            side.create_all().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_is_afterwards_as_if_it_had_been_asked_directly() {
    let seed = volume::seed_or("recording::cluster_state", OWN_SEED);
    let wanted = volume::work(WRITES, DEFAULT_WRITES) as u64;
    let mut both = Both::new().await;
    let mut statuses: BTreeMap<(String, u16), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    both.create_all().await;
    for number in 0..wanted {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(number));
        let write = writes::write(&mut rng, number);
        let (status, difference) = both.ask(&write).await;
        *statuses.entry((write.method(), status)).or_default() += 1;
        if let Some(difference) = difference {
            wrong.push(format!("{number}: {}\n{difference}", write.shown()));
            both = Both::new().await;
            both.create_all().await;
        }
        if wrong.len() >= SHOWN {
            break;
        }
    }
    println!("recording::cluster_state: method, status and number of requests: {statuses:?}");
    let shown = wrong.join("\n\n");
    assert!(wrong.is_empty(), "- direct, + apifront:\n{shown}");
}
