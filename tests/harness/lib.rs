//! The harness of the suites and the benchmarks: real servers, a client that
//! shows what is on the wire, and comparison of two answers.
//!
//! Nothing is skipped: servers that are missing are built
//! (`tests/kubernetes/build.sh`), and a suite that cannot run fails.

pub mod ages;
pub mod apifront;
pub mod apiserver;
pub mod backend;
pub mod binaries;
mod bootstrap_roles;
pub mod browser;
pub mod certificates;
pub mod client;
pub mod cluster;
pub mod collector;
mod contents;
pub mod control;
pub mod differential;
pub mod elsewhere;
pub mod encodings;
pub mod etcd;
pub mod expect;
pub mod flow_names;
pub mod forwarded;
pub mod frames;
pub mod gates;
pub mod hostile;
pub mod informer;
pub mod kubeconfig;
pub mod kubectl;
pub mod kwok;
pub mod logs;
pub mod manifests;
pub mod masked;
pub mod media_types;
pub mod newer;
pub mod objects;
pub mod own_thread;
pub mod pace;
pub mod pool;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod raw;
mod read_only;
pub mod records;
pub mod release;
pub mod sample;
pub mod scripted;
pub mod shared;
pub mod slow_link;
pub mod storage;
pub mod subject;
pub mod twins;
pub mod volume;
pub mod wardle;
pub mod watch;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Polls until `condition` holds. Tests wait for states and do not sleep.
pub async fn eventually<F, Fut>(what: &str, within: Duration, mut condition: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let deadline = Instant::now() + within;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        pace::of_tries(Duration::from_millis(20)).await;
    }
}

/// Waits for the next whole second. Creation times are whole seconds, so that
/// all ages tick with the clock's second: requests right after that show the
/// same ages.
pub async fn ages_have_ticked() {
    const SECOND: Duration = Duration::from_secs(1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let into = Duration::from_nanos(u64::from(now.expect("after 1970").subsec_nanos()));
    pace::lasting(SECOND - into).await;
}
