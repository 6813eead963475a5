//! One user asks the dearest queries again and again. Another one reads an object.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{QUERIES, query};
use crate::support::report::{self, Goal, percentile};
use crate::support::servers::{Server, Servers};

const GET: &str = "/api/v1/namespaces/default?resourceVersion=0";

/// The most that others wait beside hostile queries, as a multiple of quiet.
const GOAL: f64 = 3.0;

pub async fn disturb(servers: &Servers, lasting: Duration) {
    let front = servers.front();
    let certificates = &servers.cluster.certificates;
    let hostile = certificates.client("hostile", &["system:masters"]);
    let other = Server {
        client: servers.apifront.client(Some(&hostile)),
        ..servers.front()
    };
    let items = vec!["0"; 60].join(",");
    let hostile = query(json!({
        "where": format!("[{items}].all(a, [{items}].all(b, [{items}].all(c, c == 0)))"),
    }));
    let reader = front.connection().await;
    let read = async |until: Instant| {
        let mut waits = Vec::new();
        while Instant::now() < until {
            let began = Instant::now();
            reader.get(GET).await.expect(200);
            waits.push(began.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        percentile(&waits, 99.0)
    };
    let quiet = read(Instant::now() + lasting).await;
    let until = Instant::now() + lasting;
    let flood = async {
        let asks = (0..32).map(|_| async {
            let client = other.connection().await;
            let mut answered = 0;
            while Instant::now() < until {
                let answer = client.post(QUERIES, &hostile).await;
                assert!(
                    [400, 429].contains(&answer.status.as_u16()),
                    "{}",
                    answer.text()
                );
                answered += 1;
            }
            answered
        });
        futures::future::join_all(asks)
            .await
            .into_iter()
            .sum::<usize>()
    };
    let (beside, answered) = tokio::join!(read(until), flood);
    println!(
        "\na GET of another user, p99 in ms: {quiet:.2} in quiet, {beside:.2} beside {answered} hostile queries"
    );
    report::compare(
        "p99 beside hostile queries",
        beside / quiet,
        "x",
        Goal::AtMost(GOAL),
    );
}
