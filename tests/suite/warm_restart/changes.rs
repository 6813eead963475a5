//! Returning clients get the changes that were made while no apifront ran.

use std::fs;
use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{directory, files, loads, same, same_hit, start, version};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::expect::is_late;
use crate::harness::media_types::{JSON, PARTIAL_LIST, PROTOBUF, TABLE};
use crate::harness::objects::{config_map, pod, widget, widget_definition};
use crate::harness::watch::Watch;

const GROUP: &str = "warm.example.com";
/// The time for which the test listens to a watch that has brought everything.
const QUIET: Duration = Duration::from_millis(700);

/// The lists of this test: each resource's name and the path of the list.
fn lists(ns: &str) -> [(&'static str, String); 5] {
    [
        ("configmaps", format!("/api/v1/namespaces/{ns}/configmaps")),
        ("pods", format!("/api/v1/namespaces/{ns}/pods")),
        ("secrets", format!("/api/v1/namespaces/{ns}/secrets")),
        ("namespaces", "/api/v1/namespaces".to_owned()),
        (
            "widgets",
            format!("/apis/{GROUP}/v1/namespaces/{ns}/widgets"),
        ),
    ]
}

/// A text that no file may contain, plain or in base64.
const SECRET: [&str; 2] = ["xuqAlZ-marker", "eHVxQWxaLW1hcmtlcg=="];

async fn create(admin: &Client, ns: &str) {
    for n in 0..4 {
        let data = json!({ "n": n.to_string() });
        let name = format!("c{n}");
        let path = format!("/api/v1/namespaces/{ns}/configmaps");
        let map = config_map(&name, json!({ "app": "a" }), data);
        admin.post(&path, &map).await.expect(201);
        let path = format!("/api/v1/namespaces/{ns}/pods");
        admin
            .post(&path, &pod(&name, json!({ "app": "a" })))
            .await
            .expect(201);
        let path = format!("/apis/{GROUP}/v1/namespaces/{ns}/widgets");
        admin
            .post(&path, &widget(GROUP, &name, "red", n))
            .await
            .expect(201);
    }
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "s" }, "stringData": { "key": SECRET[0] },
    });
    let path = format!("/api/v1/namespaces/{ns}/secrets");
    admin.post(&path, &secret).await.expect(201);
}

async fn change(admin: &Client, ns: &str, round: u32) {
    for (resource, path) in lists(ns) {
        let merge = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        let name = match resource {
            "namespaces" => ns,
            "secrets" => "s",
            _ => "c0",
        };
        let object = format!("{path}/{name}");
        admin
            .patch(&object, "merge-patch+json", &merge)
            .await
            .expect(200);
        let fresh = format!("fresh-{round}");
        let body = match resource {
            "configmaps" => config_map(&fresh, json!({}), json!({})),
            "pods" => pod(&fresh, json!({})),
            "widgets" => widget(GROUP, &fresh, "blue", 9),
            _ => continue,
        };
        admin.post(&path, &body).await.expect(201);
        let old = format!("{path}/c{round}?gracePeriodSeconds=0");
        let gone = admin.send(Method::DELETE, &old, &[], "").await;
        assert_eq!(gone.status, 200, "{}", gone.text());
    }
}

async fn upstream_lists(cluster: &Cluster, resource: &str) -> f64 {
    let labels = [("verb", "LIST"), ("resource", resource)];
    cluster.metric("apiserver_request_total", &labels).await
}

async fn rest(watch: &mut Watch) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(event) = watch.next_within(QUIET).await {
        lines.push(event.expect("the watch goes on").line);
    }
    lines
}

/// Returns the events after a version, which a watch brings at once.
async fn events_since(client: &Client, list: &str, version: u64) -> Vec<String> {
    let path = format!("{list}?watch=1&resourceVersion={version}");
    rest(&mut Watch::open(client, &path).await).await
}

#[tokio::test]
async fn lists_and_watches_go_on_where_they_were() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let definition = widget_definition(GROUP);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin.post(path, &definition).await.expect(201);
    let ns = cluster.namespace("warm").await;
    let widgets = format!("/apis/{GROUP}/v1/namespaces/{ns}/widgets");
    crate::harness::eventually(
        "the definition is served",
        Duration::from_secs(20),
        || async { admin.get(&widgets).await.status == 200 },
    )
    .await;
    create(&admin, &ns).await;

    let directory = directory();
    let first = start(&cluster, &directory, |_| {}).await;
    let client = first.admin_client();
    let mut before = Vec::new();
    let mut watchers = Vec::new();
    for (_, list) in lists(&ns) {
        first.warm(&client, &list).await;
        let listed = client
            .get(&format!("{list}?resourceVersion=0"))
            .await
            .expect(200);
        before.push(version(&listed));
        let path = format!("{list}?watch=1&resourceVersion={}", version(&listed));
        watchers.push(Watch::open(&client, &path).await);
    }
    change(&admin, &ns, 1).await;
    // The client of each watch has seen the events up to its last one.
    let mut known: Vec<Vec<String>> = Vec::new();
    for watch in &mut watchers {
        known.push(rest(watch).await);
    }
    assert!(known.iter().all(|lines| !lines.is_empty()));
    first.stop().await;

    assert_eq!(
        files(&directory),
        [
            ".lock",
            "configmaps_v1_.store",
            "namespaces_v1_.store",
            "pods_v1_.store",
            "widgets_v1_warm.example.com.store"
        ]
    );
    for file in files(&directory) {
        let bytes = fs::read(directory.join(file)).expect("a file");
        let holds = |text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
        assert!(!SECRET.into_iter().any(holds));
    }

    change(&admin, &ns, 2).await;
    let mut lists_before = Vec::new();
    for (resource, _) in lists(&ns) {
        lists_before.push(upstream_lists(&cluster, resource).await);
    }
    let second = start(&cluster, &directory, |_| {}).await;
    let client = second.admin_client();
    assert_eq!(
        loads(&second, "resumed").await,
        4.0,
        "{}",
        second.process.log()
    );
    for ((at, (resource, list)), lists_before) in
        lists(&ns).into_iter().enumerate().zip(lists_before)
    {
        if resource == "secrets" {
            continue;
        }
        // The watchers return first, each with the last version that it saw.
        let last = &known[at].last().expect("events");
        let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
        let last = version(&last["object"]);
        for from in [before[at], last] {
            let ours = events_since(&client, &list, from).await;
            let theirs = events_since(&admin, &list, from).await;
            assert_eq!(ours, theirs, "{list} from {from}");
            let all: Vec<String> = match from == last {
                true => known[at].iter().chain(&ours).cloned().collect(),
                false => ours,
            };
            let again = events_since(&admin, &list, before[at]).await;
            assert_eq!(all, again, "{list}: lost or repeated events");
        }
        let listed = format!("{list}?resourceVersion=0");
        let mut accepted = vec![JSON, TABLE, PARTIAL_LIST];
        if resource != "widgets" {
            accepted.push(PROTOBUF);
        }
        let mut newest = 0;
        for accept in accepted {
            let ours = same_hit(&cluster, &client, &listed, accept).await;
            if accept == JSON {
                newest = version(&ours.json());
            }
        }
        same_hit(
            &cluster,
            &client,
            &format!("{listed}&labelSelector=round"),
            JSON,
        )
        .await;
        // Earlier states come from the saved history.
        for exact in [before[at], last, newest] {
            let path = format!("{list}?resourceVersion={exact}&resourceVersionMatch=Exact");
            let front = same_hit(&cluster, &client, &path, JSON).await;
            assert_eq!(version(&front.json()), exact);
        }
        let asked = upstream_lists(&cluster, resource).await - lists_before;
        // These are the test's own requests to kube-apiserver.
        let own = 1.0 + if resource == "widgets" { 3.0 } else { 4.0 } + 3.0;
        assert_eq!(asked, own, "lists of {resource}");
        // After each start apifront lists what the API server itself serves.
        let log = second.process.log();
        let mut filled = log.lines().filter(|line| line.contains("cache filled"));
        assert!(
            filled.all(|line| line.contains("resource=apiservices.v1.")),
            "{log}"
        );
    }
    let labels = [("verb", "watch"), ("result", "bypass")];
    assert_eq!(
        second
            .metric("apifront_cache_requests_total", &labels)
            .await,
        0.0
    );

    // The second process continues, and its own state is saved too.
    change(&admin, &ns, 3).await;
    for (_, list) in lists(&ns) {
        second.warm(&client, &list).await;
    }
    second.stop().await;
    let third = start(&cluster, &directory, |_| {}).await;
    assert_eq!(loads(&third, "resumed").await, 4.0);
    for (resource, list) in lists(&ns) {
        if resource != "secrets" {
            let listed = format!("{list}?resourceVersion=0");
            same_hit(&cluster, &third.admin_client(), &listed, JSON).await;
        }
    }
    assert!(third.process.log().contains("saved stores read"));
    third.stop().await;
}

/// Reads of the most recent state need a proof after the restart, too.
#[tokio::test]
async fn most_recent_reads_see_every_write() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let cluster = Cluster::shared();
    let ns = cluster.namespace("warm").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let admin = cluster.admin_client();
    for mode in ["Strict", "Fresh"] {
        let directory = directory();
        let mut hits = 0;
        for round in 0..4 {
            let front = start(cluster, &directory, |cache| {
                cache["consistency"] = json!(mode);
                cache["persistence"] = json!({ "interval": "1s" });
            })
            .await;
            assert_eq!(loads(&front, "resumed").await, f64::from(round.min(1)));
            let client = front.admin_client();
            front.warm(&client, &list).await;
            for write in 0..10 {
                let name = format!("{}-{round}-{write}", mode.to_lowercase());
                let map = config_map(&name, json!({}), json!({}));
                admin.post(&list, &map).await.expect(201);
                let listed = same(cluster, &client, &list, JSON).await;
                // On a busy machine, memory may hear of a write too late.
                assert!(listed.is_hit() || is_late(&listed), "{:?}", listed.headers);
                hits += usize::from(listed.is_hit());
                assert!(
                    listed.text().contains(&format!("\"{name}\"")),
                    "{mode} {name}"
                );
            }
            front.stop().await;
        }
        assert!(hits > 20, "{mode}: {hits} hits of 40");
    }
}
