//! Many clients cost the API server no more than one.

use std::time::Duration;

use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::pod;
use crate::harness::watch::Watch;

const CLIENTS: usize = 200;
const CONNECTIONS: usize = 20;

const WATCHES: (&str, [(&str, &str); 2]) = (
    "apiserver_longrunning_requests",
    [("verb", "WATCH"), ("resource", "pods")],
);

async fn watches_of_pods(cluster: &Cluster) -> f64 {
    cluster.metric(WATCHES.0, &WATCHES.1).await
}

async fn herd(client: &Client, path: &str) -> Vec<Watch> {
    let connections: Vec<Client> = (0..CONNECTIONS).map(|_| client.separate()).collect();
    let opened = (0..CLIENTS).map(|n| Watch::open(&connections[n % CONNECTIONS], path));
    futures::future::join_all(opened).await
}

/// The test has its own cluster, since it counts all watches of the API server.
#[tokio::test]
async fn two_hundred_clients_are_one_watch() {
    skip_under_oracle!("it counts the requests that reach the API server");
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("herd").await;
    let list = format!("/api/v1/namespaces/{ns}/pods");
    admin
        .post(&list, &pod("before", json!({})))
        .await
        .expect(201);

    // This proves the measurement: without apifront, each client is a watch.
    // kube-apiserver itself watches pods, too.
    let own = watches_of_pods(&cluster).await;
    let watches = herd(&admin, &format!("{list}?watch=1&resourceVersion=0")).await;
    assert_eq!(watches_of_pods(&cluster).await, own + CLIENTS as f64);
    drop(watches);
    eventually("the watches are gone", Duration::from_secs(30), || async {
        watches_of_pods(&cluster).await == own
    })
    .await;

    let front = Apifront::start(&cluster, |_| {}).await;
    let client = front.admin_client();
    let warm = "/api/v1/pods?resourceVersion=0";
    front.warm(&client, warm).await;
    let now = client.get(&list).await.expect(200);
    let version = now["metadata"]["resourceVersion"]
        .as_str()
        .expect("version");
    let mut watches = herd(&client, &format!("{list}?watch=1&resourceVersion=0")).await;
    let all = format!("/api/v1/pods?watch=1&resourceVersion={version}");
    let table = client
        .clone()
        .with_header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut later = herd(&client, &all).await;
    let tables = herd(&table, &all).await;
    assert!(watches_of_pods(&cluster).await <= own + 1.0);

    admin
        .post(&list, &pod("after", json!({})))
        .await
        .expect(201);
    let first = futures::future::join_all(watches.iter_mut().map(|w| w.take_short(2))).await;
    assert!(first.iter().all(|e| e == &["ADDED before", "ADDED after"]));
    let second = futures::future::join_all(later.iter_mut().map(|w| w.take(1))).await;
    // All clients get the same frame.
    assert!(second.iter().all(|e| e[0].line == second[0][0].line));
    assert!(watches_of_pods(&cluster).await <= own + 1.0);
    println!(
        "{} watchers through apifront, apiserver_longrunning_requests of the API server: {} \
         (it alone: {own})",
        3 * CLIENTS,
        watches_of_pods(&cluster).await
    );
    drop((watches, later, tables));

    // Nobody has requested this resource yet, so all watches wait for its first
    // list.
    let cold = [("verb", "WATCH"), ("resource", "limitranges")];
    let own = cluster.metric(WATCHES.0, &cold).await;
    let herd = herd(&client, "/api/v1/limitranges?watch=1&resourceVersion=0").await;
    assert_eq!(herd.len(), CLIENTS);
    assert!(cluster.metric(WATCHES.0, &cold).await <= own + 1.0);
    drop(herd);

    // Lists from the cache cost the API server nothing.
    let lists = [("verb", "LIST"), ("resource", "pods")];
    let before = cluster.metric("apiserver_request_total", &lists).await;
    let asked = (0..CLIENTS).map(|_| client.get(warm));
    for answer in futures::future::join_all(asked).await {
        answer.expect(200);
    }
    assert_eq!(
        cluster.metric("apiserver_request_total", &lists).await,
        before
    );
    front.stop().await;
}
