//! Reads upstream that answer many callers.

use std::time::Duration;

use http::Method;

use super::neighbour::{Sample, namespace};
use crate::harness::apifront::{Apifront, oracle};
use crate::harness::cluster::Cluster;

/// Callers who go away, who ask oddly and who ask much share upstream's reads
/// with one who does not.
#[tokio::test]
async fn odd_callers_delay_and_fail_nobody_else() {
    if oracle() {
        return;
    }
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
    let quiet = Sample::of(&other, &theirs, &[], 50).await;

    // A URL's length of requirements, for each of the objects upstream has.
    let long = (0..5_000).map(|n| format!("!k{n:04}")).collect::<Vec<_>>();
    let requests = [
        format!("?labelSelector={}", long.join("%2C")),
        "?labelSelector=n%3D1&limit=1".to_owned(),
        "?fieldSelector=metadata.name%21%3Dx".to_owned(),
        "?labelSelector=n%3E%3D%3D1".to_owned(),
        "?fieldSelector=no.such%3Dfield".to_owned(),
        String::new(),
    ];
    let flood: Vec<_> = (0..12)
        .map(|n| {
            let (client, path) = (odd.clone(), path(&own));
            let requests = requests.clone();
            tokio::spawn(async move {
                for request in requests.iter().cycle().skip(n) {
                    let path = format!("{path}{request}");
                    let asked = client.try_send(Method::GET, &path, &[], "");
                    if n % 3 == 0 {
                        // Gone before there is an answer.
                        let _ = tokio::time::timeout(Duration::from_millis(3), asked).await;
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    } else {
                        let _ = asked.await;
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let attacked = Sample::of(&other, &theirs, &[], 50).await;
    for task in &flood {
        task.abort();
    }
    Sample::assert_unnoticed(&quiet, &attacked, "shared reads beside odd ones");
    front.stop().await;
}
