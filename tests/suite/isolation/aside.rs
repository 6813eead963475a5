//! One user repeatedly causes work that takes much CPU.

use std::time::Duration;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;

use super::measure::{Bound, Times, assert_unharmed, is_controlled, print_control};
use super::neighbour::namespace;
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::elsewhere;

const BOUND: Bound = Bound {
    times_quiet: 3,
    floor: Duration::from_millis(1500),
};

/// Requests all paths repeatedly, `at_a_time` concurrently.
struct Flood {
    over: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Flood {
    fn start(client: &Client, requests: Vec<(String, &'static str)>, at_a_time: usize) -> Self {
        let (over, asked) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        // Each connection has twenty streams.
        let clients: Vec<_> = (0..=at_a_time / 20).map(|_| client.separate()).collect();
        let tasks = (0..at_a_time).map(|n| {
            let client = clients[n / 20].clone();
            let (requests, over, asked) = (requests.clone(), over.clone(), asked.clone());
            elsewhere::spawn(async move {
                for (path, accept) in requests.iter().cycle().skip(n) {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let headers = [("accept", *accept), ("accept-encoding", "gzip")];
                    let answer = client.try_send(Method::GET, path, &headers, "").await;
                    let fine = answer.is_ok_and(|a| a.status == 200);
                    asked.fetch_add(usize::from(fine), Ordering::Relaxed);
                }
            })
        });
        let tasks = tasks.collect();
        Self { over, asked, tasks }
    }

    async fn end(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.abort();
        }
        self.asked.load(Ordering::Relaxed)
    }
}

/// Floods of bodies to indent, compress and convert to YAML, and of selectors as
/// long as a URL, beside another user's reads.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn a_flood_of_dear_answers_delays_others_by_a_turn() {
    skip_under_oracle!("the bound is apifront's");
    let cluster = Cluster::shared();
    let (own, others) = tokio::join!(
        namespace("dear", 400, 1_500),
        namespace("dear-other", 400, 1_500)
    );
    let front = Apifront::start(cluster, |_| {}).await;
    let client =
        |name: &str, ns: &str| front.client(Some(&cluster.certificates.client(name, &[ns])));
    let (greedy, other) = (client("greedy", &own), client("other", &others));
    let list = |ns: &str| format!("/api/v1/namespaces/{ns}/configmaps?resourceVersion=0");
    front.warm(&greedy, &list(&own)).await;

    let selector = (0..5_000).map(|n| format!("!k{n:04}")).collect::<Vec<_>>();
    let long = format!("{}&labelSelector={}", list(&own), selector.join("%2C"));
    let requests = vec![
        (format!("{}&pretty=true", list(&own)), "application/json"),
        (list(&own), "application/yaml"),
        (
            format!("{}&labelSelector=n%21%3D1", list(&own)),
            "application/json",
        ),
        (long, "application/json"),
    ];
    let object = format!("/api/v1/namespaces/{others}/configmaps/c0001?resourceVersion=0");
    let dear = format!("{}&labelSelector=n%21%3D2", list(&others));
    let gzip = [("accept-encoding", "gzip")];
    let times = async || {
        (
            Times::reads(&other, &object, &[], 200).await,
            Times::reads(&other, &dear, &gzip, 30).await,
        )
    };
    let quiet = times().await;
    let flood = Flood::start(&greedy, requests.clone(), 60);
    let attacked = times().await;
    let asked = flood.end().await;
    println!("{asked} dear answers meanwhile");
    if is_controlled() {
        let another = Apifront::start(cluster, |_| {}).await;
        let pair = cluster.certificates.client("greedy", &[&own]);
        let greedy = another.client(Some(&pair));
        another.warm(&greedy, &list(&own)).await;
        let flood = Flood::start(&greedy, requests, 60);
        let apart = times().await;
        println!("{} dear answers of another", flood.end().await);
        print_control("GETs beside dear answers", &apart.0, &attacked.0);
        print_control(
            "compressed LISTs beside dear answers",
            &apart.1,
            &attacked.1,
        );
        another.stop().await;
    }
    assert_unharmed("GETs beside dear answers", &quiet.0, &attacked.0, BOUND);
    assert_unharmed(
        "compressed LISTs beside dear answers",
        &quiet.1,
        &attacked.1,
        BOUND,
    );
    front.stop().await;
}
