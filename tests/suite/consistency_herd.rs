//! Many clients that ask for the most recent state at once cost the API server no
//! more than a few clients would.

use std::time::Instant;

use futures::StreamExt;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::media_types::TABLE;
use crate::harness::objects::config_map;
use crate::harness::release::{Release, tell_left_out};
use crate::harness::watch::Watch;

const CLIENTS: usize = 200;
const CONNECTIONS: usize = 20;
/// With this many objects, a read takes longer than all clients need to ask.
const OBJECTS: usize = 1000;
/// The upstream reads: one in progress, one for all clients that arrive during it,
/// and one for late clients.
const READS: f64 = 3.0;
/// The upstream reads if clients ask different questions. The first clients cause
/// separate reads.
const DIFFERENT_READS: f64 = 6.0;

/// The number of tries. On a busy machine the clients do not all ask at the same
/// time.
const TRIES: usize = 3;

const WATCH_LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                          &allowWatchBookmarks=true";

/// Returns the number of LISTs and WATCHes of config maps that the API server has
/// answered or begun.
async fn reads(cluster: &Cluster) -> f64 {
    let lists = [("verb", "LIST"), ("resource", "configmaps")];
    let watches = [("verb", "WATCH"), ("resource", "configmaps")];
    cluster.metric("apiserver_request_total", &lists).await
        + cluster
            .metric("apiserver_longrunning_requests", &watches)
            .await
}

fn connections(client: &Client) -> Vec<Client> {
    (0..CONNECTIONS).map(|_| client.separate()).collect()
}

/// The test has its own cluster, since it counts all requests to the API
/// server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_shares_its_reads() {
    skip_under_oracle!("it counts the requests that reach the API server");
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("herd").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let made = (0..OBJECTS).map(|n| {
        let labels = json!({"n": (n % 5).to_string()});
        let object = config_map(&format!("cm-{n:04}"), labels, json!({}));
        let (admin, list) = (&admin, &list);
        async move { admin.post(list, &object).await.expect(201) }
    });
    futures::stream::iter(made)
        .buffer_unordered(CONNECTIONS)
        .collect::<Vec<_>>()
        .await;
    let front = Apifront::start(&cluster, |config| {
        config["cache"]["consistency"] = json!("Strict");
    })
    .await;
    let client = front
        .admin_client()
        .with_header("x-apifront-debug", "cache");
    front
        .warm(&client, "/api/v1/configmaps?resourceVersion=0")
        .await;
    let clients = connections(&client);
    // Connections are opened first, so that all clients ask at once.
    for client in &clients {
        client.get("/version").await.expect(200);
    }

    for (what, path, most) in [
        ("lists", |list: &str, _: usize| list.to_owned(), READS),
        ("pages", |list: &str, _| format!("{list}?limit=500"), READS),
        (
            "selectors",
            |list: &str, n| format!("{list}?labelSelector=n%3D{}", n % 5),
            DIFFERENT_READS,
        ),
        (
            "lists of one and all namespaces",
            |list: &str, n| match n % 2 {
                0 => list.to_owned(),
                _ => "/api/v1/configmaps".to_owned(),
            },
            DIFFERENT_READS,
        ),
    ] as [(&str, fn(&str, usize) -> String, f64); 4]
    {
        if what == "pages" && !Release::at_least(34) {
            tell_left_out("the cost of pages, which need upstream's tokens");
            continue;
        }
        let mut cost = f64::INFINITY;
        for _ in 0..TRIES {
            let (before, began) = (reads(&cluster).await, Instant::now());
            let asked = (0..CLIENTS).map(|n| {
                let client = &clients[n % CONNECTIONS];
                let path = path(&list, n);
                async move {
                    // The clients ask for several representations.
                    match n % 3 {
                        0 => client.get_as(&path, TABLE).await,
                        _ => client.get(&path).await,
                    }
                }
            });
            let answers = futures::future::join_all(asked).await;
            let took = began.elapsed();
            for answer in &answers {
                answer.expect(200);
                let cache = answer.header("x-apifront-cache");
                assert!(cache.starts_with("hit"), "{what}: {cache}");
            }
            cost = reads(&cluster).await - before;
            println!("{CLIENTS} {what}: {cost} reads upstream, {took:?}");
            if cost <= most {
                break;
            }
        }
        assert!(cost <= most, "{what}: {cost} reads upstream");
    }

    // 1.32 ends initial events with a bookmark that only it can write.
    match Release::at_least(34) {
        true => initial_events_are_shared(&cluster, &clients, &list).await,
        false => tell_left_out("the cost of initial events, which upstream sends"),
    }

    let path = format!("{list}/cm-0007");
    let gets = [("verb", "GET"), ("resource", "configmaps")];
    let before = cluster.metric("apiserver_request_total", &gets).await;
    let asked = (0..CLIENTS).map(|n| clients[n % CONNECTIONS].get(&path));
    for answer in futures::future::join_all(asked).await {
        answer.expect(200);
    }
    let cost = cluster.metric("apiserver_request_total", &gets).await - before;
    println!("{CLIENTS} GETs of one object: {cost} upstream");
    assert!(cost * 10.0 <= CLIENTS as f64, "{cost} GETs upstream");
    front.stop().await;
}

async fn initial_events_are_shared(cluster: &Cluster, clients: &[Client], list: &str) {
    let before = reads(cluster).await;
    let path = format!("{list}?{WATCH_LIST}");
    let opened = (0..CLIENTS).map(|n| Watch::open(&clients[n % CONNECTIONS], &path));
    let mut watches = futures::future::join_all(opened).await;
    let begun = watches.iter_mut().map(|watch| async move {
        let mut events = 0;
        loop {
            let event = watch.next().await.expect("an event");
            if event.kind == "BOOKMARK" {
                return (events, event.version());
            }
            events += 1;
        }
    });
    let begun = futures::future::join_all(begun).await;
    assert!(begun.iter().all(|(events, _)| *events == OBJECTS));
    let cost = reads(cluster).await - before;
    println!("{CLIENTS} watches with initial events: {cost} reads upstream");
    assert!(cost <= DIFFERENT_READS, "{cost} reads upstream");

    // The watches continue after the initial events.
    let object = config_map("after", json!({}), json!({}));
    cluster.admin_client().post(list, &object).await.expect(201);
    let next = watches.iter_mut().map(|w| w.take_short(1));
    let next = futures::future::join_all(next).await;
    assert!(next.iter().all(|events| events == &["ADDED after"]));
    drop(watches);
}
