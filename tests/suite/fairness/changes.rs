//! FlowSchemas and priority levels change while requests arrive. Each request is
//! classified, and neither a request nor a seat is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::vocabulary::flow_schema;
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, sum_metric};
use crate::harness::objects::{self, FLOW_CONTROL};
use crate::harness::{eventually, volume};

const LASTS: Duration = Duration::from_secs(8);
const CLIENTS: usize = 24;
const LEVELS: [&str; 2] = ["wide", "narrow"];
const SCHEMAS: usize = 12;
const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_under_load_lose_no_request_and_no_seat() {
    skip_under_oracle!("the flow control is apifront's");
    let mut rng = StdRng::seed_from_u64(volume::seed("changes"));
    let cluster = Cluster::leased(&[]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let admin = cluster.admin_client();
    let ends = AtomicBool::new(false);
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let client = front.client(Some(&cluster.admin));
    let asks = (0..CLIENTS).map(|number| {
        let user = ["alice", "bob", "carol"][number % 3];
        let client = client.clone().with_header("impersonate-user", user);
        let (ends, answered, refused) = (&ends, &answered, &refused);
        async move {
            while !ends.load(Ordering::Relaxed) {
                let path = [
                    "/api/v1/nodes",
                    "/version",
                    "/api/v1/namespaces/default/pods",
                ];
                let answer = client.get(path[number % path.len()]).await;
                let schema = answer.header("x-kubernetes-pf-flowschema-uid").to_owned();
                assert!(!schema.is_empty(), "{}: {}", answer.status, answer.text());
                match answer.status.as_u16() {
                    200 | 403 => answered.fetch_add(1, Ordering::Relaxed),
                    429 => refused.fetch_add(1, Ordering::Relaxed),
                    other => panic!("{other}: {}", answer.text()),
                };
            }
        }
    });
    let changes = async {
        let began = tokio::time::Instant::now();
        let mut changes = 0;
        while began.elapsed() < LASTS {
            change(&admin, &mut rng).await;
            changes += 1;
        }
        ends.store(true, Ordering::Relaxed);
        changes
    };
    let (_, changes) = tokio::join!(futures::future::join_all(asks), changes);
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    println!("changes: {changes}; {answered} requests answered, {refused} refused");
    assert!(
        changes > 20 && answered > 1_000,
        "{changes} changes, {answered} answers"
    );
    eventually("all seats are given back", SOON, || async {
        let text = front.metrics().await;
        let now = |name: &str| {
            let name = format!("apiserver_flowcontrol_current_{name}");
            LEVELS
                .iter()
                .chain(["workload-low", "global-default", "catch-all"].iter())
                .map(|level| sum_metric(&text, &name, &[("priority_level", level)]))
                .sum::<f64>()
        };
        now("executing_seats") + now("inqueue_requests") + now("executing_requests") == 0.0
    })
    .await;
}

async fn change(admin: &Client, rng: &mut StdRng) {
    if rng.random_bool(0.5) {
        let name = format!("random-{}", rng.random_range(0..SCHEMAS));
        let path = format!("{FLOW_CONTROL}/flowschemas");
        admin.delete(&format!("{path}/{name}")).await;
        if rng.random_bool(0.7) {
            admin
                .post(&path, &flow_schema(rng, &name))
                .await
                .expect(201);
        }
        return;
    }
    let name = LEVELS[rng.random_range(0..LEVELS.len())];
    let path = format!("{FLOW_CONTROL}/prioritylevelconfigurations");
    let spec = level(rng);
    let known = admin.get(&format!("{path}/{name}")).await;
    if known.status == 200 && rng.random_bool(0.7) {
        let change = json!({ "spec": spec });
        let path = format!("{path}/{name}");
        admin
            .patch(&path, "merge-patch+json", &change)
            .await
            .expect(200);
        return;
    }
    admin.delete(&format!("{path}/{name}")).await;
    let level = objects::priority_level(name, spec);
    admin.post(&path, &level).await.expect(201);
}

fn level(rng: &mut StdRng) -> Value {
    let response = match rng.random_bool(0.3) {
        true => json!({ "type": "Reject", "queuing": null }),
        false => {
            let hand = rng.random_range(1..5);
            json!({ "type": "Queue", "queuing": {
                "queues": rng.random_range(hand..40), "handSize": hand,
                "queueLengthLimit": rng.random_range(1..60),
            } })
        }
    };
    json!({ "type": "Limited", "limited": {
        "nominalConcurrencyShares": rng.random_range(1..5),
        "lendablePercent": rng.random_range(0..100),
        "limitResponse": response,
    } })
}
