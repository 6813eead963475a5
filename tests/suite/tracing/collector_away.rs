//! Tests tracing while its collector is away: no request may wait for it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::world::{APIFRONT, SOON, tracing_file};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::collector::Collector;
use crate::harness::eventually;
use crate::harness::ports;
use crate::harness::process::temporary_folder;

/// More spans than the queue holds.
const REQUESTS: usize = 6_000;
const MAY_WAIT: usize = 2_048;

const METRIC: &str = "apifront_tracing_spans_total";

const PATH: &str = "/api/v1/namespaces/default?resourceVersion=0";

async fn start(endpoint: &str) -> Apifront {
    let folder = temporary_folder("away");
    let file = tracing_file(&folder, endpoint, 1_000_000);
    let front = Apifront::start_directly(Cluster::shared(), |config| {
        config["observability"]["tracingConfigFile"] = json!(file);
    })
    .await;
    front.warm(&front.admin_client(), PATH).await;
    front
}

/// Sends this many requests, a limited number of them concurrently.
async fn ask(client: &Client, requests: usize) {
    const AT_A_TIME: usize = 20;
    for _ in 0..requests / AT_A_TIME {
        let some = (0..AT_A_TIME).map(|_| async { client.get(PATH).await.expect(200) });
        futures::future::join_all(some).await;
    }
}

async fn count(front: &Apifront, result: &str) -> f64 {
    front.metric(METRIC, &[("result", result)]).await
}

#[tokio::test]
async fn requests_are_answered_and_the_log_stays_short() {
    skip_under_oracle!("kube-apiserver has no spans of apifront");
    let front = start(&ports::loopback(ports::free()).to_string()).await;
    let client = front.admin_client().over(Protocol::Http2);
    ask(&client, REQUESTS).await;
    eventually("a batch was given up", SOON, || async {
        count(&front, "failed").await > 0.0
    })
    .await;
    let lost = count(&front, "failed").await + count(&front, "dropped").await;
    assert!(lost >= (REQUESTS - MAY_WAIT) as f64, "{lost}");
    assert_eq!(count(&front, "exported").await, 0.0);
    let log = front.process.log();
    let lines = log.lines().filter(|line| line.contains("span"));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("spans were not sent"), "{lines:#?}");
    front.stop().await;
}

#[tokio::test]
async fn a_collector_that_never_answers_holds_up_neither_requests_nor_the_stop() {
    skip_under_oracle!("kube-apiserver has no spans of apifront");
    let silent = ports::listen();
    let address = silent.local_addr().expect("an address");
    let front = start(&address.to_string()).await;
    let client = front.admin_client().over(Protocol::Http2);
    ask(&client, REQUESTS).await;
    eventually("spans find no room in the queue", SOON, || async {
        client.get(PATH).await.expect(200);
        count(&front, "dropped").await > 0.0
    })
    .await;
    let began = Instant::now();
    front.stop().await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    drop(silent);
}

#[tokio::test]
async fn spans_are_sent_before_a_stop_and_by_a_new_file() {
    skip_under_oracle!("kube-apiserver has no spans of apifront");
    let (first, second) = (Collector::start(), Collector::start());
    let front = start(&first.address.to_string()).await;
    let client = front.admin_client();
    client.get(PATH).await.expect(200);
    // apifront reads the file again when it changes.
    let mut config = front.read_config();
    let file = config["observability"]["tracingConfigFile"].clone();
    let file = std::path::PathBuf::from(file.as_str().expect("a file"));
    let folder = file.parent().expect("a folder");
    tracing_file(folder, &second.address.to_string(), 1_000_000);
    eventually("the first collector has its spans", SOON, || async {
        !first.spans().is_empty()
    })
    .await;
    eventually("spans go to the second collector", SOON, || async {
        client.get(PATH).await.expect(200);
        !second.spans().is_empty()
    })
    .await;
    assert!(second.spans().iter().all(|span| span.service == APIFRONT));
    // The span of a request just before the stop must arrive.
    let last = "/api/v1/namespaces/kube-system";
    let of_last = || second.find(|span| span.attribute("url.path") == last);
    client.get(last).await.expect(200);
    front.stop().await;
    assert_eq!(of_last().len(), 1);

    // Without this field in the configuration there are no spans.
    let front = start(&second.address.to_string()).await;
    config = front.read_config();
    config["observability"]
        .as_object_mut()
        .expect("a section")
        .remove("tracingConfigFile");
    front.write_config(&config);
    let client = front.admin_client();
    eventually("requests leave no spans", SOON, || async {
        let before = count(&front, "exported").await;
        client.get(PATH).await.expect(200);
        crate::harness::pace::lasting(Duration::from_secs(6)).await;
        count(&front, "exported").await == before
    })
    .await;
    front.stop().await;
}
