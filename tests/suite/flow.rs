//! Tests the limits of requests in flight: who waits for whom, and how requests
//! over a limit are refused.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::differential::compare_exactly;
use crate::harness::eventually;
use crate::harness::objects;
use crate::harness::scripted::Scripted;
use crate::harness::watch::Watch;

const SOON: Duration = Duration::from_secs(30);
const WAITING: &str = "apiserver_flowcontrol_current_inqueue_requests";
const EXECUTING: &str = "apiserver_flowcontrol_current_executing_requests";

/// An upstream that answers one request for each permit, and an apifront before
/// it.
struct Bench {
    scripted: Scripted,
    permits: Arc<Semaphore>,
    front: Apifront,
}

impl Bench {
    async fn start(flow: serde_json::Value) -> Self {
        let permits = Arc::new(Semaphore::new(0));
        let given = permits.clone();
        let scripted = Scripted::start(move |mut connection| {
            let given = given.clone();
            async move {
                while connection.next().await.is_some() {
                    given.acquire().await.expect("open").forget();
                    connection.answer("200 OK", "done").await;
                }
            }
        })
        .await;
        let cluster = Cluster::shared();
        let front = Apifront::start(cluster, |config| {
            config["upstream"] = json!({ "servers": [scripted.url()], "caFile": cluster.ca() });
            config["flow"] = flow;
        })
        .await;
        Self {
            scripted,
            permits,
            front,
        }
    }

    fn client(&self, name: &str, groups: &[&str]) -> Client {
        let pair = Cluster::shared().certificates.client(name, groups);
        self.front.client(Some(&pair))
    }

    /// Returns the requests that have reached upstream, by the ends of their
    /// paths.
    fn seen(&self) -> Vec<String> {
        let seen = self.scripted.seen();
        let end = |line: &str| line.rsplit('/').next().unwrap_or_default().to_owned();
        seen.iter().map(|s| end(&s.line)).collect()
    }

    async fn waiting(&self, of: &str, requests: usize) {
        eventually("requests wait", SOON, || async {
            let waiting = self.front.metric(WAITING, &[("priority_level", of)]).await;
            waiting == requests as f64
        })
        .await;
    }

    async fn reloaded(&self, times: usize) {
        eventually("the configuration is in force", SOON, || async {
            let success = [("result", "success")];
            let reloads = self.front.metric("apifront_config_reloads_total", &success);
            reloads.await == times as f64
        })
        .await;
    }

    async fn upstream(&self, requests: usize) {
        eventually("requests upstream", SOON, || async {
            self.seen().len() == requests
        })
        .await;
    }
}

type Asked = tokio::task::JoinHandle<u16>;

/// Sends `times` requests for `/slow/NAME` at the same time.
fn ask(client: &Client, name: &'static str, times: usize) -> Vec<Asked> {
    (0..times)
        .map(|_| {
            let client = client.clone();
            let path = format!("/slow/{name}");
            tokio::spawn(async move { client.get(&path).await.status.as_u16() })
        })
        .collect()
}

async fn all_are(asked: Vec<Asked>, code: u16) {
    for answer in asked {
        assert_eq!(answer.await.expect("no panic"), code);
    }
}

/// A group's seats are shared fairly among its users, however many requests one
/// user has.
#[tokio::test]
async fn a_greedy_user_delays_others_by_one_request() {
    skip_under_oracle!("the flow control is apifront's");
    let bench = Bench::start(json!({
        "userConcurrencyLimit": 0, "groupConcurrencyLimits": { "people": 2 },
        "queueLengthLimit": 200, "queueWait": "60s",
    }))
    .await;
    let greedy = ask(&bench.client("greedy", &["people"]), "greedy", 150);
    bench.upstream(2).await;
    bench.waiting("people", 148).await;
    let meek = ask(&bench.client("meek", &["people"]), "meek", 3);
    let other = ask(&bench.client("other", &["people"]), "other", 3);
    bench.waiting("people", 154).await;
    // Users outside the group do not wait.
    let free = ask(&bench.client("free", &[]), "free", 5);
    bench.upstream(2 + 5).await;
    bench.permits.add_permits(7);
    // Upstream answers at random, but at most two of the group's requests are
    // there.
    all_are(free, 200).await;
    bench.permits.add_permits(20);
    for asked in [meek, other] {
        all_are(asked, 200).await;
    }
    let order: Vec<String> = bench.seen().into_iter().filter(|s| s != "free").collect();
    let last = order.iter().rposition(|s| s != "greedy").expect("both");
    assert!(last <= 2 + 3 * 3 + 1, "{order:?}");
    bench.permits.add_permits(200);
    all_are(greedy, 200).await;
    bench.waiting("people", 0).await;
    let executing = [("priority_level", "people")];
    eventually("no seats taken", SOON, || async {
        bench.front.metric(EXECUTING, &executing).await == 0.0
    })
    .await;
    bench.front.stop().await;
}

/// A user's limit and queue are separate from others'. A full queue and a long
/// wait are refused in kube-apiserver's words.
#[tokio::test]
async fn users_are_isolated() {
    skip_under_oracle!("the flow control is apifront's");
    let bench = Bench::start(json!({
        "userConcurrencyLimit": 3, "queueLengthLimit": 4, "queueWait": "2s",
    }))
    .await;
    let user = bench.client("ulrich", &["people"]);
    let held = ask(&user, "held", 3);
    bench.upstream(3).await;
    let late = ask(&user, "late", 4);
    bench.waiting("user", 4).await;
    let refused = user.get("/slow/refused").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(
        refused.text(),
        "Too many requests, please try again later.\n"
    );
    let other = ask(&bench.client("another", &["people"]), "other", 3);
    bench.upstream(6).await;
    let admin = ask(&bench.front.admin_client(), "admin", 20);
    bench.upstream(26).await;
    all_are(late, 429).await;
    for (reason, count) in [("queue-full", 1.0), ("time-out", 4.0)] {
        let labels = [("priority_level", "user"), ("reason", reason)];
        let name = "apiserver_flowcontrol_rejected_requests_total";
        assert_eq!(bench.front.metric(name, &labels).await, count, "{reason}");
    }
    bench.permits.add_permits(26);
    for asked in [held, other, admin] {
        all_are(asked, 200).await;
    }
    // A reload with a higher limit lets waiting requests in.
    let held = ask(&user, "held", 3);
    bench.upstream(29).await;
    let mut config = bench.front.read_config();
    config["flow"] = json!({ "userConcurrencyLimit": 3, "queueWait": "60s" });
    bench.front.write_config(&config);
    bench.reloaded(1).await;
    let more = ask(&user, "more", 2);
    bench.waiting("user", 2).await;
    config["flow"] = json!({ "userConcurrencyLimit": 10 });
    bench.front.write_config(&config);
    bench.upstream(31).await;
    bench.permits.add_permits(5);
    for asked in [held, more] {
        all_are(asked, 200).await;
    }
    bench.front.stop().await;
}

/// Clients that leave the queue leave nothing in it, over either protocol.
#[tokio::test]
async fn who_leaves_while_waiting_is_forgotten() {
    skip_under_oracle!("the flow control is apifront's");
    let bench = Bench::start(json!({
        "userConcurrencyLimit": 1, "groupConcurrencyLimits": { "people": 1 },
        "queueWait": "10m", "queueLengthLimit": 100,
    }))
    .await;
    let user = bench.client("ulrich", &["people"]);
    let held = ask(&user, "held", 1);
    bench.upstream(1).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = user.over(protocol).separate();
        let mut own = ask(&client, "own", 30);
        let other = bench.client("other", &["people"]).over(protocol).separate();
        own.extend(ask(&other, "other", 30));
        // One request of the other user waits for the group, the rest for that
        // user's own seat.
        bench.waiting("user", 30 + 29).await;
        bench.waiting("people", 1).await;
        for asked in own {
            asked.abort();
        }
        bench.waiting("user", 0).await;
        bench.waiting("people", 0).await;
    }
    bench.permits.add_permits(1);
    all_are(held, 200).await;
    // No waiting request was forwarded, and there is room again.
    bench.permits.add_permits(1);
    all_are(ask(&user, "again", 1), 200).await;
    assert_eq!(bench.seen(), ["held", "again"]);
    bench.front.stop().await;
}

/// Any number of watches begin with few seats, and hold no seat afterwards.
#[tokio::test]
async fn a_herd_of_watches_begins_in_turns() {
    skip_under_oracle!("the flow control is apifront's");
    const HERD: usize = 400;
    let cluster = Cluster::shared();
    let ns = cluster.namespace("herd-in-turns").await;
    let admin = cluster.admin_client();
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let map = objects::config_map("a", json!({}), json!({ "k": "v".repeat(50_000) }));
    admin.post(&maps, &map).await.expect(201);
    for grant in [
        objects::role("reader", &[""], &["configmaps"], &["get", "list", "watch"]),
        objects::role_binding("reader", "reader", "Group", "herd"),
    ] {
        let kind = grant["kind"].as_str().expect("a kind").to_lowercase();
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/{kind}s");
        admin.post(&path, &grant).await.expect(201);
    }
    let front = Apifront::start(cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(1);
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
    let level = [("priority_level", "watchStart")];
    eventually("all seats are free", SOON, || async {
        front.metric(EXECUTING, &level).await == 0.0 && front.metric(WAITING, &level).await == 0.0
    })
    .await;
    let open = [("verb", "WATCH"), ("resource", "configmaps")];
    let open = front.metric("apiserver_longrunning_requests", &open).await;
    assert_eq!(open, HERD as f64);
    drop(watches);
    front.stop().await;
}

/// The 429 is the same as kube-apiserver's without API Priority and Fairness.
#[tokio::test]
async fn the_429_is_that_of_kube_apiserver() {
    skip_under_oracle!("kube-apiserver is asked beside apifront in any case");
    let flags = [
        "--enable-priority-and-fairness=false",
        "--max-mutating-requests-inflight=1",
    ];
    let cluster = Cluster::start(&flags.map(str::to_owned)).await;
    let front = Apifront::start(&cluster, |config| {
        config["serving"]["maxMutatingRequestsInflight"] = json!(1);
    })
    .await;
    let pair = cluster.certificates.client("ulrich", &["people"]);
    let path = "/api/v1/namespaces/default/configmaps";
    // A caller who may not write is refused at once and holds no seat, so these
    // may write.
    for grant in [
        objects::role("writer", &[""], &["configmaps"], &["create"]),
        objects::role_binding("writer", "writer", "Group", "people"),
    ] {
        let kind = grant["kind"].as_str().expect("a kind").to_lowercase();
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/default/{kind}s");
        cluster.admin_client().post(&path, &grant).await.expect(201);
    }
    let mut refused = Vec::new();
    for client in [cluster.client(Some(&pair)), front.client(Some(&pair))] {
        // The body of this request never arrives, so that the request holds the
        // only seat.
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
        // The question itself may take the seat for a moment, so that the
        // request that should hold the seat is refused. Another request tries
        // then.
        let mut holding = Vec::new();
        while holding.is_empty() || asked().await.status != 429 {
            assert!(holding.len() < 50, "the place is never taken");
            let mut held = client.over(Protocol::Http1).raw().await.expect("connect");
            held.write(head.as_bytes()).await.expect("it reads");
            holding.push(held);
            // The server takes the seat when it has read the head, and does not
            // answer. The next question tells whether the seat is taken.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        refused.push(asked().await);
    }
    assert_eq!(refused[1].status, 429);
    let difference = compare_exactly(&refused[0], &refused[1]);
    assert!(difference.is_empty(), "{difference}");
    front.stop().await;
}
