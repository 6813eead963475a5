//! Gives kube-apiserver and apifront the same random priority levels, and compares
//! the seats of each level in their metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, sum_metric};
use crate::harness::objects::{self, FLOW_CONTROL};
use crate::harness::{eventually, volume};

/// Borrowing is recalculated every 10 s.
const SOON: Duration = Duration::from_secs(40);
const LEVELS: usize = 12;
/// The number of changes of all levels.
const ROUNDS: usize = 6;
/// The limits that depend only on the objects.
const LIMITS: [&str; 3] = [
    "nominal_limit_seats",
    "lower_limit_seats",
    "upper_limit_seats",
];

#[tokio::test]
async fn levels_have_the_seats_that_kube_apiserver_gives_them() {
    skip_under_oracle!("kube-apiserver is what apifront is compared with");
    let mut rng = StdRng::seed_from_u64(volume::seed("seats"));
    let flags = [
        "--max-requests-inflight=131",
        "--max-mutating-requests-inflight=67",
    ];
    let cluster = Cluster::leased(&flags.map(str::to_owned)).await;
    let front = Apifront::start(&cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(131);
        config["serving"]["maxMutatingRequestsInflight"] = json!(67);
    })
    .await;
    let admin = cluster.admin_client();
    let mut compared = 0;
    for round in 0..ROUNDS {
        for number in 0..LEVELS {
            put_level(&admin, &format!("level-{number}"), level(&mut rng)).await;
        }
        if round % 2 == 1 {
            // The shares of the suggested objects may change, too.
            let change = json!({ "spec": { "limited": {
                "nominalConcurrencyShares": rng.random_range(1..100),
                "lendablePercent": rng.random_range(0..=100),
            } } });
            let path = format!("{FLOW_CONTROL}/prioritylevelconfigurations/workload-low");
            admin
                .patch(&path, "merge-patch+json", &change)
                .await
                .expect(200);
        }
        compared += are_equal(&admin, &front).await;
    }
    admin
        .delete(&format!(
            "{FLOW_CONTROL}/prioritylevelconfigurations/level-0"
        ))
        .await
        .expect(200);
    eventually(
        "the series of a level that is gone are gone",
        SOON,
        || async {
            !limits(&front.metrics().await)
                .keys()
                .any(|(_, level)| level == "level-0")
        },
    )
    .await;
    println!("seats: {compared} limits compared");
}

/// Waits until both servers report the same limits for all levels. Returns their
/// number.
async fn are_equal(admin: &Client, front: &Apifront) -> usize {
    let read = async || {
        let right = limits(&admin.get("/metrics").await.text());
        (right, limits(&front.metrics().await))
    };
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let (right, found) = read().await;
        if right == found {
            assert!(right.len() >= 3 * LEVELS - 3, "{right:?}");
            return right.len();
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "- kube-apiserver {right:?}\n+ apifront {found:?}"
        );
        crate::harness::pace::of_tries(Duration::from_millis(300)).await;
    }
}

fn limits(metrics: &str) -> BTreeMap<(&'static str, String), String> {
    let mut limits = BTreeMap::new();
    for name in LIMITS {
        let start = format!("apiserver_flowcontrol_{name}{{priority_level=\"");
        for line in metrics.lines() {
            if let Some((level, value)) =
                line.strip_prefix(&start).and_then(|l| l.split_once("\"} "))
            {
                limits.insert((name, level.to_owned()), value.to_owned());
            }
        }
    }
    limits
}

fn level(rng: &mut StdRng) -> Value {
    let mut limited = json!({
        "nominalConcurrencyShares": rng.random_range(0..80),
        "lendablePercent": rng.random_range(0..=100),
        "limitResponse": { "type": "Reject" },
    });
    if rng.random_bool(0.5) {
        limited["borrowingLimitPercent"] = json!(rng.random_range(0..300));
    }
    if rng.random_bool(0.5) {
        let hand = rng.random_range(1..6);
        limited["limitResponse"] = json!({ "type": "Queue", "queuing": {
            "queues": rng.random_range(hand..64), "handSize": hand,
            "queueLengthLimit": rng.random_range(1..100),
        } });
    }
    json!({ "type": "Limited", "limited": limited })
}

/// Deletes and creates the level, since its type cannot be changed.
async fn put_level(admin: &Client, name: &str, spec: Value) {
    let path = format!("{FLOW_CONTROL}/prioritylevelconfigurations");
    admin.delete(&format!("{path}/{name}")).await;
    let level = objects::priority_level(name, spec);
    admin.post(&path, &level).await.expect(201);
}

/// At rest, both servers lend the same seats: idle levels lend them to levels that
/// may borrow. The servers' own work differs, so a few seats may differ too.
#[tokio::test]
async fn idle_seats_are_lent_as_kube_apiserver_lends_them() {
    skip_under_oracle!("kube-apiserver is what apifront is compared with");
    let cluster = Cluster::leased(&[]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let admin = cluster.admin_client();
    let levels = [
        "workload-high",
        "workload-low",
        "global-default",
        "system",
        "leader-election",
    ];
    let current = |metrics: &str| {
        levels.map(|level| {
            let labels = [("priority_level", level)];
            sum_metric(
                metrics,
                "apiserver_flowcontrol_current_limit_seats",
                &labels,
            )
        })
    };
    eventually("the same seats are lent", SOON, || async {
        let right = current(&admin.get("/metrics").await.text());
        let found = current(&front.metrics().await);
        let near = |(right, found): (&f64, &f64)| (right - found).abs() <= 3.0;
        right.iter().zip(&found).all(near) && right.iter().all(|seats| *seats > 0.0)
    })
    .await;
}
