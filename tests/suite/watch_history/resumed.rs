//! Watches that begin after a restart of kube-apiserver, from versions before and
//! after it. apifront has the state before and the state after, but not the changes
//! in between. Neither has a second apifront whose upstream it is.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;

use super::{version, warm};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::objects::config_map;
use crate::harness::watch::Watch;
use crate::harness::{eventually, volume};

/// The variable with the number of informers that resume.
const INFORMERS: &str = "APIFRONT_TEST_INFORMERS";
const NOTICED_WITHIN: Duration = Duration::from_secs(60);
/// The number of times that the history is lost.
const RESTARTS: usize = 2;
/// The writes of one object. apifront sees only the last one.
const WRITES: u64 = 4;

/// Returns a watch's events of that object up to version `last`, as kind and
/// version, or `410`.
async fn told(client: &Client, list: &str, from: u64, last: u64) -> Vec<String> {
    let path = format!("{list}?watch=1&resourceVersion={from}&fieldSelector=metadata.name%3Dholed");
    let mut watch = Watch::open(client, &path).await;
    let mut told = Vec::new();
    loop {
        let event = watch.next().await.expect("an event");
        if event.kind == "ERROR" {
            assert_eq!(event.object["code"], 410, "{}", event.line);
            told.push("410".to_owned());
            return told;
        }
        told.push(format!("{} {}", event.kind, event.version()));
        if event.version() >= last {
            return told;
        }
    }
}

/// Lets returning informers resume from `seen`, and list again if they are told to.
/// Prints the number of these lists, and of those that reach kube-apiserver.
async fn lists_of_informers(
    cluster: &Cluster,
    client: &Client,
    list: &str,
    (seen, last): (u64, u64),
) {
    let informers = volume::count(INFORMERS, 20);
    let labels = [("verb", "LIST"), ("resource", "configmaps")];
    let upstream = async || cluster.metric("apiserver_request_total", &labels).await;
    let before = upstream().await;
    let each = (0..informers).map(|_| async {
        let told = told(client, list, seen, last).await;
        if told != ["410"] {
            return 0;
        }
        let listed = client.get(&format!("{list}?resourceVersion=0")).await;
        assert!(version(&listed.expect(200)) >= last);
        1
    });
    let lists: usize = join_all(each).await.into_iter().sum();
    let reached = upstream().await - before;
    println!("{informers} informers that were away: {lists} lists, {reached} upstream");
    assert_eq!(reached, 0.0, "their lists are answered from memory");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_from_before_a_restart_is_not_told_half_of_what_happened() {
    skip_under_oracle!("it is about apifront's reflectors");
    let mut cluster = Cluster::leased(&[]).await;
    let front = Apifront::start_directly(&cluster, |_| {}).await;
    let lower = front.start_below(&cluster, |_| {}).await;
    let (direct, client) = (cluster.admin_client(), front.admin_client());
    let over_both = lower.admin_client();
    let ns = cluster.namespace("holed").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let object = format!("{list}/holed");
    warm(&front, &client).await;
    warm(&lower, &over_both).await;
    let made = config_map("holed", json!({}), json!({ "n": "0" }));
    let mut seen = version(&direct.post(&list, &made).await.expect(201));
    for restart in 1..=RESTARTS {
        let at_least = format!("{list}?resourceVersion={seen}");
        for client in [&client, &over_both] {
            eventually("the write is in the cache", NOTICED_WITHIN, || async {
                let answer = client
                    .send(http::Method::GET, &at_least, &[DEBUG], "")
                    .await;
                answer.is_hit()
            })
            .await;
        }
        // An open watch continues, and learns the object's state.
        let path = format!("{list}?watch=1&resourceVersion={seen}");
        let mut open = Watch::open(&client, &path).await;
        let mut open_over_both = Watch::open(&over_both, &path).await;
        // apifront receives nothing until everything is written. The second
        // kube-apiserver begins its own history after the first writes.
        front.signal("STOP");
        let mut written = Vec::new();
        for n in 0..WRITES {
            if n % 2 == 0 {
                cluster.restart_apiserver().await;
            }
            let data = json!({ "data": { "n": format!("{restart}-{n}") } });
            let answer = direct.patch(&object, "merge-patch+json", &data).await;
            written.push(version(&answer.expect(200)));
        }
        front.signal("CONT");
        let last = *written.last().expect("a write");
        let resumed = open.next().await.expect("an event");
        assert_eq!(
            (resumed.kind.as_str(), resumed.version()),
            ("MODIFIED", last)
        );
        while open_over_both.next().await.expect("an event").version() < last {}

        let whole: Vec<_> = written.iter().map(|v| format!("MODIFIED {v}")).collect();
        let path = format!("{list}?watch=1&timeoutSeconds=1&resourceVersion={seen}");
        let (directly, through, through_both) = tokio::join!(
            told(&direct, &list, seen, last),
            told(&client, &list, seen, last),
            told(&over_both, &list, seen, last),
        );
        println!(
            "from {seen}, before the restart: directly {directly:?}, through {through:?}, \
             through both {through_both:?}"
        );
        assert!(
            through == whole || through == ["410"],
            "from {seen}: {through:?}, and etcd has {whole:?}"
        );
        assert_eq!(directly, through, "from {seen}");
        assert_eq!(directly, through_both, "from {seen}");
        lists_of_informers(&cluster, &client, &list, (seen, last)).await;
        let answer = client.send(http::Method::GET, &path, &[DEBUG], "").await;
        let unmet = Expect::Bypass("history_too_short").unmet(&answer);
        assert!(unmet.is_empty(), "{unmet}");

        // Events after apifront's own list come from memory.
        let at_least = format!("{list}?resourceVersion={last}");
        let listed = client
            .send(http::Method::GET, &at_least, &[DEBUG], "")
            .await;
        assert!(listed.is_hit(), "{}", listed.text());
        let from = version(&listed.json());
        let data = json!({ "data": { "n": format!("{restart}") } });
        let answer = direct.patch(&object, "merge-patch+json", &data).await;
        seen = version(&answer.expect(200));
        let after = told(&client, &list, from, seen).await;
        assert_eq!(after, [format!("MODIFIED {seen}")]);
        let path = format!("{list}?watch=1&timeoutSeconds=1&resourceVersion={from}");
        let answer = client.send(http::Method::GET, &path, &[DEBUG], "").await;
        assert!(answer.is_hit(), "{}", answer.header("x-apifront-cache"));
    }
    lower.stop().await;
    front.stop().await;
}
