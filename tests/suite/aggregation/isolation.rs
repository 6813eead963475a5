//! A backend that hangs delays only its own callers.

use std::time::{Duration, Instant};

use crate::harness::backend::Mood;
use crate::harness::twins::{Parts, Registration, Twins};

/// apifront gives up a hanging backend after 5 s. Requests that wait for it take
/// longer than this.
const PROMPT: Duration = Duration::from_secs(3);

#[tokio::test]
async fn others_do_not_wait_for_what_hangs() {
    let mut backends = Vec::new();
    let twins = Twins::start(async |parts: &Parts| {
        let moods = [
            ("calm", Mood::Fine),
            ("mute", Mood::Mute),
            ("hanging", Mood::Hanging),
            ("stuck", Mood::HangingAfterHead),
            ("huge", Mood::Huge(50_000)),
        ];
        let mut all = Vec::new();
        for (name, mood) in moods {
            let group = format!("{name}.isolated.example.com");
            let backend = parts.backend(&group, mood);
            all.push(Registration::new(&group, "v1", name, backend.port()).trust(parts.ca()));
            backends.push(backend);
        }
        all
    })
    .await;
    twins.settled("v1.calm.isolated.example.com", true).await;
    let front = twins.front_client();
    let aggregated =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let mut slowest = Duration::ZERO;
    for _ in 0..40 {
        for (path, accept) in [
            ("/api/v1/namespaces", "application/json"),
            (
                "/apis/apps/v1/deployments?resourceVersion=0",
                "application/json",
            ),
            (
                "/apis/calm.isolated.example.com/v1/things/status/200",
                "*/*",
            ),
            ("/apis/calm.isolated.example.com/v1", "application/json"),
            ("/api", aggregated),
            ("/apis", aggregated),
            ("/apis", "application/json"),
            ("/openapi/v3", "application/json"),
        ] {
            let began = Instant::now();
            let answer = front.get_as(path, accept).await;
            slowest = slowest.max(began.elapsed());
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }
    }
    assert!(slowest < PROMPT, "{slowest:?}");
    println!("slowest of 320 answers beside hanging backends: {slowest:.1?}");
    let groups = front.get("/apis").await.expect(200);
    let groups: Vec<&str> = groups["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .filter_map(|g| g["name"].as_str())
        .filter(|name| name.ends_with(".isolated.example.com"))
        .collect();
    assert_eq!(groups.len(), 5, "all are listed: {groups:?}");
}
