//! Tests the places of forwarded requests, before a server that answers on command.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;

use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::scripted::Scripted;

const SOON: Duration = Duration::from_secs(30);
const TAKEN: &str = "apifront_forwarded_requests";
const EXECUTING: &str = "apiserver_flowcontrol_current_executing_requests";

/// An upstream that answers one request per permit, and an apifront before it.
struct Bench {
    scripted: Scripted,
    permits: Arc<Semaphore>,
    front: Apifront,
}

impl Bench {
    async fn start(seats: usize, flow: serde_json::Value) -> Self {
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
            config["serving"]["maxRequestsInflight"] = json!(seats);
            config["serving"]["maxMutatingRequestsInflight"] = json!(0);
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

    async fn upstream(&self, requests: usize) {
        eventually("requests upstream", SOON, || async {
            self.scripted.seen().len() == requests
        })
        .await;
    }

    async fn taken(&self, places: usize) {
        eventually("places are taken", SOON, || async {
            self.front.metric(TAKEN, &[]).await == places as f64
        })
        .await;
    }
}

type Asked = tokio::task::JoinHandle<u16>;

/// Sends `times` concurrent requests.
fn ask(client: &Client, times: usize) -> Vec<Asked> {
    (0..times)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get("/slow").await.status.as_u16() })
        })
        .collect()
}

async fn all_are(asked: Vec<Asked>, code: u16) {
    for answer in asked {
        assert_eq!(answer.await.expect("no panic"), code);
    }
}

/// Requests at the upstream hold no seats here, however slow it is: it queues them
/// itself.
#[tokio::test]
async fn requests_that_upstream_has_hold_no_seats() {
    skip_under_oracle!("the flow control is apifront's");
    let bench = Bench::start(16, json!({})).await;
    let asked = ask(&bench.client("greedy", &["people"]), 150);
    bench.upstream(150).await;
    bench.taken(150).await;
    assert_eq!(bench.front.metric(EXECUTING, &[]).await, 0.0);
    bench.permits.add_permits(150);
    all_are(asked, 200).await;
    bench.taken(0).await;
    bench.front.stop().await;
}

#[tokio::test]
async fn users_have_places_of_their_own() {
    skip_under_oracle!("the flow control is apifront's");
    let flow = json!({ "userForwardedLimit": 3, "forwardedLimit": 5 });
    let bench = Bench::start(100, flow).await;
    let user = bench.client("ulrich", &["people"]);
    let held = ask(&user, 3);
    bench.upstream(3).await;
    let refused = user.get("/slow").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(
        refused.text(),
        "Too many requests, please try again later.\n"
    );
    let other = bench.client("another", &["people"]);
    let others = ask(&other, 2);
    bench.upstream(5).await;
    assert_eq!(other.get("/slow").await.status, 429);
    // An administrator's requests always find a place.
    let admin = ask(&bench.front.admin_client(), 20);
    bench.upstream(25).await;
    let rejected = "apifront_forwarded_rejected_total";
    for limit in ["user", "total"] {
        assert_eq!(bench.front.metric(rejected, &[("limit", limit)]).await, 1.0);
    }
    bench.permits.add_permits(25);
    for asked in [held, others, admin] {
        all_are(asked, 200).await;
    }
    bench.taken(0).await;
    bench.permits.add_permits(1);
    assert_eq!(user.get("/slow").await.status, 200);
    bench.front.stop().await;
}

/// Clients that disconnect free their places, over either protocol.
#[tokio::test]
async fn who_leaves_is_forgotten() {
    skip_under_oracle!("the flow control is apifront's");
    let bench = Bench::start(100, json!({ "userForwardedLimit": 30 })).await;
    for (round, protocol) in [Protocol::Http1, Protocol::Http2].into_iter().enumerate() {
        let client = bench
            .client("ulrich", &["people"])
            .over(protocol)
            .separate();
        let asked = ask(&client, 30);
        bench.upstream(30 * (round + 1)).await;
        bench.taken(30).await;
        for asked in asked {
            asked.abort();
        }
        bench.taken(0).await;
    }
    bench.front.stop().await;
}
