//! Upstream reads that answer many callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;

use super::measure::{Bound, Times, assert_unharmed};
use super::neighbour::namespace;
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::elsewhere;
use crate::harness::eventually;

const SOON: Duration = Duration::from_secs(30);
const BOUND: Bound = Bound {
    times_quiet: 3,
    floor: Duration::from_millis(1500),
};

/// Some callers disconnect, some send odd requests, and some send many. They share
/// the upstream's reads with a caller who does none of that.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn odd_callers_delay_and_fail_nobody_else() {
    skip_under_oracle!("the shared reads are apifront's");
    let cluster = Cluster::shared();
    let (own, others) = tokio::join!(namespace("odd", 600, 100), namespace("odd-other", 20, 100));
    let front = Apifront::start(cluster, |_| {}).await;
    let client =
        |name: &str, ns: &str| front.client(Some(&cluster.certificates.client(name, &[ns])));
    let (odd, other) = (client("odd", &own), client("other", &others));
    let path = |ns: &str| format!("/api/v1/namespaces/{ns}/configmaps");
    front
        .warm(&odd, &format!("{}?resourceVersion=0", path(&own)))
        .await;
    let theirs = path(&others);
    let debug = [("x-apifront-debug", "cache")];
    let answer = other.send(Method::GET, &theirs, &debug, "").await;
    assert!(answer.is_hit(), "{}", answer.header("x-apifront-cache"));
    let quiet = Times::reads(&other, &theirs, &[], 50).await;

    // A selector as long as a URL, which the upstream evaluates for each object.
    // Answers are short, since this process also has little time for each.
    let long = (0..5_000).map(|n| format!("!k{n:04}")).collect::<Vec<_>>();
    let requests = [
        format!("?labelSelector=n%3D5%2C{}", long.join("%2C")),
        "?labelSelector=n%3D1&limit=1".to_owned(),
        "?labelSelector=n%3D2&fieldSelector=metadata.name%21%3Dx".to_owned(),
        "?labelSelector=n%3E%3D%3D1".to_owned(),
        "?fieldSelector=no.such%3Dfield".to_owned(),
        "?labelSelector=n%20in%20(3%2C4)".to_owned(),
    ];
    let answered = Arc::new(AtomicUsize::new(0));
    let client = odd.separate();
    let flood: Vec<_> = (0..12)
        .map(|n| {
            let (client, path) = (client.clone(), path(&own));
            let (requests, answered) = (requests.clone(), answered.clone());
            elsewhere::spawn(async move {
                // One request in eight has the long selector.
                let short = requests.iter().skip(1).cycle();
                let requests = short.enumerate().map(|(n, short)| match n % 8 {
                    0 => &requests[0],
                    _ => short,
                });
                for request in requests.skip(n) {
                    let path = format!("{path}{request}");
                    let asked = client.try_send(Method::GET, &path, &[], "");
                    if n % 3 == 0 {
                        // The client disconnects before there is an answer.
                        let _ = tokio::time::timeout(Duration::from_millis(3), asked).await;
                    } else {
                        let _ = asked.await;
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    // Without this pause, the test would measure this process, or
                    // the processor.
                    crate::harness::pace::of_load(Duration::from_millis(200)).await;
                }
            })
        })
        .collect();
    eventually(
        "each of the odd callers has been answered",
        SOON,
        || async { answered.load(Ordering::Relaxed) >= flood.len() },
    )
    .await;
    let attacked = Times::reads(&other, &theirs, &[], 50).await;
    for task in &flood {
        task.abort();
    }
    assert_unharmed("shared reads beside odd ones", &quiet, &attacked, BOUND);
    front.stop().await;
}
