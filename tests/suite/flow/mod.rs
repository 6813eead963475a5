//! Tests which requests wait for which others, and how requests over a limit are
//! refused.

mod forwarded;
mod headers;
mod schemas;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Protocol};
use crate::harness::cluster::{Cluster, grant};
use crate::harness::differential::compare_exactly;
use crate::harness::eventually;
use crate::harness::objects;
use crate::harness::watch::Watch;

const SOON: Duration = Duration::from_secs(30);
const WAITING: &str = "apiserver_flowcontrol_current_inqueue_requests";
const EXECUTING: &str = "apiserver_flowcontrol_current_executing_requests";
const HEADERS: [&str; 2] = [
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];

fn schema_of(answer: &Answer) -> Option<String> {
    Some(answer.header(HEADERS[0]).to_owned()).filter(|uid| !uid.is_empty())
}

fn level_of(answer: &Answer) -> Option<String> {
    Some(answer.header(HEADERS[1]).to_owned()).filter(|uid| !uid.is_empty())
}

/// A user waits if their requests exceed the seats. Another user of the same level
/// does not wait.
#[tokio::test]
async fn one_users_overload_leaves_another_prompt() {
    skip_under_oracle!("the flow control is apifront's");
    const LISTS: usize = 64;
    let cluster = Cluster::shared();
    let ns = cluster.namespace("overload").await;
    let admin = cluster.admin_client();
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    for n in 0..50 {
        let data = json!({ "k": "v".repeat(4_000) });
        let map = objects::config_map(&format!("m{n}"), json!({}), data);
        admin.post(&maps, &map).await.expect(201);
    }
    let grants = [
        objects::role("reader", &[""], &["configmaps"], &["get", "list", "watch"]),
        objects::role_binding("reader", "reader", "Group", &ns),
    ];
    grant(&admin, &ns, &grants).await;
    let front = Apifront::start(cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(16);
        config["serving"]["maxMutatingRequestsInflight"] = json!(0);
    })
    .await;
    let list = format!("{maps}?resourceVersion=0");
    front.warm(&front.admin_client(), &list).await;
    let client = |name: &str| front.client(Some(&cluster.certificates.client(name, &[&ns])));
    let (greedy, meek) = (client("greedy"), client("meek"));
    assert_eq!(
        meek.get(&format!("{maps}/m0?resourceVersion=0"))
            .await
            .status,
        200
    );
    let ended = Arc::new(AtomicUsize::new(0));
    let flood: Vec<_> = (0..LISTS)
        .map(|_| {
            // A list of the most recent state holds its seats while apifront asks
            // the upstream for its version.
            let (greedy, list, ended) = (greedy.clone(), maps.clone(), ended.clone());
            tokio::spawn(async move {
                loop {
                    greedy.get(&list).await;
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    eventually("the greedy user waits", SOON, || async {
        front.metric(WAITING, &[]).await > 10.0
    })
    .await;
    // In one queue, each read would wait for all lists before it.
    let mut waited = Vec::new();
    for n in 0..50 {
        let before = ended.load(Ordering::Relaxed);
        let one = meek.get(&format!("{maps}/m{n}?resourceVersion=0")).await;
        assert_eq!(one.status, 200, "{}", one.text());
        waited.push(ended.load(Ordering::Relaxed) - before);
    }
    println!("lists that ended during each of 50 reads, {LISTS} at a time: {waited:?}");
    // Some answers are read late on a busy machine.
    waited.sort_unstable();
    assert!(waited[waited.len() / 2] < LISTS / 4, "{waited:?}");
    for asked in flood {
        asked.abort();
    }
    eventually("nobody waits", SOON, || async {
        front.metric(WAITING, &[]).await == 0.0 && front.metric(EXECUTING, &[]).await == 0.0
    })
    .await;
    front.stop().await;
}

/// Any number of watches can begin with few seats, and none holds a seat afterwards.
#[tokio::test]
async fn a_herd_of_watches_begins_in_turns() {
    skip_under_oracle!("the flow control is apifront's");
    // A flow of the suggested levels may wait in six queues of 50 requests.
    const HERD: usize = 250;
    let cluster = Cluster::shared();
    let ns = cluster.namespace("herd-in-turns").await;
    let admin = cluster.admin_client();
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let map = objects::config_map("a", json!({}), json!({ "k": "v".repeat(50_000) }));
    admin.post(&maps, &map).await.expect(201);
    let grants = [
        objects::role("reader", &[""], &["configmaps"], &["get", "list", "watch"]),
        objects::role_binding("reader", "reader", "Group", "herd"),
    ];
    grant(&admin, &ns, &grants).await;
    let front = Apifront::start(cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(16);
        config["serving"]["maxMutatingRequestsInflight"] = json!(0);
        config["flow"] = json!({ "queueWait": "60s" });
    })
    .await;
    front.warm(&front.admin_client(), &maps).await;
    let pair = cluster.certificates.client("agent", &["herd"]);
    let client = front.client(Some(&pair));
    let path = format!("{maps}?watch=1&resourceVersion=0");
    let begun = (0..HERD).map(|n| {
        let client = if n % 40 == 0 {
            client.separate()
        } else {
            client.clone()
        };
        let path = path.clone();
        tokio::spawn(async move {
            let mut watch = Watch::open(&client, &path).await;
            let first = watch.next().await.expect("an event");
            assert!(first.name() == "a" || first.name() == "kube-root-ca.crt");
            watch
        })
    });
    let mut watches = Vec::new();
    for begun in begun.collect::<Vec<_>>() {
        watches.push(begun.await.expect("no panic"));
    }
    eventually("all seats are free", SOON, || async {
        front.metric(EXECUTING, &[]).await == 0.0 && front.metric(WAITING, &[]).await == 0.0
    })
    .await;
    let open = [("verb", "WATCH"), ("resource", "configmaps")];
    let open = front.metric("apiserver_longrunning_requests", &open).await;
    assert_eq!(open, HERD as f64);
    drop(watches);
    front.stop().await;
}

/// The 429 is kube-apiserver's without API Priority and Fairness.
#[tokio::test]
async fn the_429_is_that_of_kube_apiserver() {
    skip_under_oracle!("kube-apiserver is asked beside apifront in any case");
    let flags = [
        "--enable-priority-and-fairness=false",
        "--max-mutating-requests-inflight=1",
    ];
    let cluster = Cluster::leased(&flags.map(str::to_owned)).await;
    let front = Apifront::start(&cluster, |config| {
        config["serving"]["maxMutatingRequestsInflight"] = json!(1);
        config["flow"] = json!({ "enablePriorityAndFairness": false });
    })
    .await;
    let pair = cluster.certificates.client("ulrich", &["people"]);
    let path = "/api/v1/namespaces/default/configmaps";
    // A caller without rights would be refused at once and hold no seat, so these
    // may write.
    let grants = [
        objects::role("writer", &[""], &["configmaps"], &["create"]),
        objects::role_binding("writer", "writer", "Group", "people"),
    ];
    grant(&cluster.admin_client(), "default", &grants).await;
    let mut refused = Vec::new();
    for client in [cluster.client(Some(&pair)), front.client(Some(&pair))] {
        // The body of this request never arrives, so the request holds the only
        // seat.
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
             Content-Length: 100\r\n\r\n{{"
        );
        let client = &client;
        let asked = || async {
            let json = [
                ("content-type", "application/json"),
                ("accept", "application/json"),
            ];
            client.send(Method::POST, path, &json, "{}").await
        };
        // The question itself may take the seat for a moment, and the request that
        // should hold it is then refused. Another request tries again.
        let mut holding = Vec::new();
        while holding.is_empty() || asked().await.status != 429 {
            assert!(holding.len() < 50, "the place is never taken");
            let mut held = client.over(Protocol::Http1).raw().await.expect("connect");
            held.write(head.as_bytes()).await.expect("it reads");
            holding.push(held);
            // The server takes the seat when it has read the head, and does not
            // answer. The next question shows whether the seat is taken.
            crate::harness::pace::of_tries(Duration::from_millis(300)).await;
        }
        refused.push(asked().await);
    }
    assert_eq!(refused[1].status, 429);
    let difference = compare_exactly(&refused[0], &refused[1]);
    assert!(difference.is_empty(), "{difference}");
    assert_eq!(schema_of(&refused[1]), None);
    // Reads have their own limit, and administrators are never refused.
    let read = front.client(Some(&pair)).get("/version").await;
    assert_eq!((read.status.as_u16(), schema_of(&read)), (200, None));
    let map = objects::config_map("by-admin", json!({}), json!({ "k": "v" }));
    front.admin_client().post(path, &map).await.expect(201);
    let dump = "/debug/api_priority_and_fairness/dump_queues";
    assert_eq!(front.admin_client().get(dump).await.status, 404);
    front.stop().await;
}
