//! Runs apifront before a real kube-apiserver for a long time while everything
//! changes: objects, watchers, connections, definitions of custom resources,
//! certificates and configuration. kube-apiserver is killed twice a minute. At the
//! end the benchmark compares everything with kube-apiserver. It fails if memory,
//! descriptors, tasks or series of metrics grew.
//!
//! `make soak`, or for ten minutes `make soak MINUTES=10`. Memory grows in the first
//! five minutes, which is the age of the history.

mod churn;
mod comparison;
mod informer;
mod series;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::apifront::Apifront;
use harness::cluster::Cluster;
use harness::volume;
use tokio::task::JoinSet;

use churn::Churn;
use series::Series;

/// The time between two kills of kube-apiserver.
const RESTART_EVERY: Duration = Duration::from_secs(30);
const DOWN_FOR: Duration = Duration::from_secs(1);
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
const INFORMERS: usize = 6;
/// In this time everything that was open must end: connections without requests
/// after their idle time, files after a reload.
const SETTLES_WITHIN: Duration = Duration::from_secs(180);
const SEED: &str = "soak";

pub fn main() {
    let length = 60 * crate::support::seconds("minutes", 30);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(soak(length));
}

async fn soak(length: Duration) {
    let mut cluster = Cluster::start(&[]).await;
    let front = Arc::new(Apifront::start(&cluster, |_| {}).await);
    let churn = Churn::new(&cluster, front.clone(), volume::seed(SEED)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut informers = JoinSet::new();
    for n in 0..INFORMERS {
        informers.spawn(informer::follow(churn.clone(), n, stop.clone()));
    }
    // From here on every resource is in the cache, as it is at the end.
    let compared = comparison::everything(&cluster, &front).await;
    println!("compared: {compared}");
    let before = series::sample(&front).await;
    println!("in quiet: {before}");
    let mut working = churn.start(&stop);
    let began = Instant::now();
    let mut series = Series::default();
    let (mut next_restart, mut restarts) = (RESTART_EVERY, 0);
    while began.elapsed() < length {
        tokio::time::sleep(SAMPLE_EVERY).await;
        let sample = series::sample(&front).await;
        println!("{:>5} s: {sample}", began.elapsed().as_secs());
        series.push(began.elapsed(), sample);
        if began.elapsed() >= next_restart {
            next_restart += RESTART_EVERY;
            restarts += 1;
            cluster.apiserver.kill();
            tokio::time::sleep(DOWN_FOR).await;
            cluster.apiserver.start_again();
            cluster.wait_ready().await;
        }
        while let Some(ended) = working.try_join_next() {
            ended.expect("nothing that churns panics");
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = working.join_next().await {
        ended.expect("nothing that churns panics");
    }
    println!("{restarts} restarts of kube-apiserver; {}", churn.done());
    let followed = informers.join_all().await;
    informer::assert_current(&cluster.admin_client(), followed).await;
    let compared = comparison::everything(&cluster, &front).await;
    println!("compared: {compared}");
    let settled = series::settle(&front, &before, SETTLES_WITHIN).await;
    println!("in quiet again: {settled}");
    series.assert_flat(&before, &settled);
    let log = front.process.log();
    assert!(!log.contains("panicked"), "{}", front.process.log_tail());
    drop(churn);
    let front = Arc::into_inner(front).expect("nobody uses it any more");
    front.stop().await;
}
