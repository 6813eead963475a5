//! Tests watches that wait to begin.

use std::time::Duration;

use serde_json::json;

use super::flood::Flood;
use super::measure::{Bound, Times, assert_unharmed, is_controlled, print_control};
use super::neighbour::namespace;
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::volume;
use crate::harness::watch::Watch;

const SOON: Duration = Duration::from_secs(60);
const BOUND: Bound = Bound {
    times_quiet: 3,
    floor: Duration::from_millis(1000),
};

#[tokio::test]
async fn a_flood_of_watches_leaves_room_for_anothers_first() {
    skip_under_oracle!("the flow control is apifront's");
    const FLOOD: usize = 1_000;
    let cluster = Cluster::shared();
    let ns = namespace("watch-starts", 20, 20_000).await;
    let front = Apifront::start(cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(16);
        config["serving"]["maxMutatingRequestsInflight"] = json!(0);
        config["serving"]["http2MaxStreamsPerConnection"] = json!(FLOOD);
        config["flow"] = json!({ "queueWait": "60s" });
    })
    .await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let admin = front.admin_client();
    front
        .warm(&admin, &format!("{list}?resourceVersion=0"))
        .await;
    let client = |name: &str| front.client(Some(&cluster.certificates.client(name, &[&ns])));
    let (flood, other) = (client("flood"), client("other"));
    let path = format!("{list}?watch=1&resourceVersion=0");
    let opened: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (client, path) = (flood.clone(), path.clone());
            tokio::spawn(async move { Watch::open(&client, &path).await })
        })
        .collect();
    let waiting = [];
    let name = "apiserver_flowcontrol_current_inqueue_requests";
    let mut most = 0.0f64;
    eventually("a queue", SOON, || async {
        front.metric(name, &waiting).await > 50.0
    })
    .await;
    most = most.max(front.metric(name, &waiting).await);
    let began = std::time::Instant::now();
    let mut watch = Watch::open(&other.over(Protocol::Http1), &path).await;
    assert!(watch.next().await.is_ok(), "an initial event");
    let took = began.elapsed();
    let left = front.metric(name, &waiting).await;
    println!("{most} watches waited, another's first began after {took:.1?}, {left} still wait");
    assert!(left > 50.0, "it came before those who waited");
    // All of them need minutes.
    assert!(took < Duration::from_secs(15), "{took:?}");
    for opened in opened {
        opened.abort();
    }
    drop(watch);
    front.stop().await;
}

/// One user begins watches without a pause, and closes each after its first event.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn watches_that_begin_and_end_do_not_delay_anothers_first_event() {
    skip_under_oracle!("the flow control is apifront's");
    const AT_A_TIME: usize = 64;
    const PER_CONNECTION: usize = 500;
    let cluster = Cluster::shared();
    let (own, theirs) = tokio::join!(
        namespace("restless", 20, 2_000),
        namespace("restless-other", 20, 2_000)
    );
    let front = Apifront::start(cluster, |_| {}).await;
    let client = |ns: &str| front.client(Some(&cluster.certificates.client(ns, &[ns])));
    let list = |ns: &str| format!("/api/v1/namespaces/{ns}/configmaps?resourceVersion=0");
    let (restless, other) = (client(&own), client(&theirs));
    front.warm(&restless, &list(&own)).await;
    front.warm(&other, &list(&theirs)).await;
    let begins = |client: Client, path: String| async move {
        let watch = Watch::try_open(&client, &path).await;
        match watch {
            Ok(mut watch) => watch.next().await.is_ok(),
            Err(_) => false,
        }
    };
    // A client's h2 ends its connection after 1,024 resets.
    let reads = 50 * volume::samples();
    let others: Vec<Client> = (0..=3 * reads / PER_CONNECTION)
        .map(|_| other.separate())
        .collect();
    let theirs = format!("{}&watch=1", list(&theirs));
    let first_event =
        async |n: usize| begins(others[n / PER_CONNECTION].clone(), theirs.clone()).await;
    let quiet = Times::of_requests(50, first_event).await;
    let path = format!("{}&watch=1", list(&own));
    let flood = async |restless: &Client| {
        let clients: Vec<Client> = (0..4).map(|_| restless.separate()).collect();
        let path = path.clone();
        Flood::start(AT_A_TIME, move |n| {
            let begun = begins(clients[n % clients.len()].clone(), path.clone());
            async move {
                begun.await;
            }
        })
        .await
    };
    let attack = flood(&restless).await;
    let attacked = Times::of_requests(50, async |n| first_event(reads + n).await).await;
    println!("{} watches of the flood", attack.end());
    if is_controlled() {
        let another = Apifront::start(cluster, |_| {}).await;
        let restless = another.client(Some(&cluster.certificates.client(&own, &[&own])));
        another.warm(&restless, &list(&own)).await;
        let attack = flood(&restless).await;
        let apart = Times::of_requests(50, async |n| first_event(2 * reads + n).await).await;
        println!("{} watches of the flood at another apifront", attack.end());
        print_control("a watch's first event", &apart, &attacked);
        another.stop().await;
    }
    assert_unharmed("a watch's first event", &quiet, &attacked, BOUND);
    front.stop().await;
}
