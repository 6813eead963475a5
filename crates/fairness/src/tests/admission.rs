//! Waiting for seats.

use std::sync::Arc;
use std::time::Duration;

use kubernetes_wire::api::UserInfo;
use tokio::task::{JoinHandle, yield_now};

use super::support::{busy, classify, engine, info, series, total_seats, user};
use crate::{Fairness, Rejected, Seats, Width};

const LONG: Duration = Duration::from_secs(15);
const WAITING: &str = "apiserver_flowcontrol_current_inqueue_requests";
const EXECUTING: &str = "apiserver_flowcontrol_current_executing_seats";
const REJECTED: &str = "apiserver_flowcontrol_rejected_requests_total";
const OF_BUSY: (&str, &str) = ("priority_level", "busy");

fn ask(
    fairness: &Arc<Fairness>,
    user: UserInfo,
    width: Width,
    wait: Duration,
) -> JoinHandle<Result<Seats, Rejected>> {
    let fairness = fairness.clone();
    tokio::spawn(async move {
        let class = classify(&fairness, info("GET", "/api/v1/pods"), &user);
        fairness.admit(&class, width, wait).await
    })
}

fn alice() -> UserInfo {
    user("alice", &[])
}

async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_seats_and_leave() {
    let (fairness, clock, registry) = engine(total_seats(2));
    assert_eq!(fairness.configure(busy(4, 2, 2)), []);
    let now = |name| series(&registry, name, &[OF_BUSY]).unwrap_or(0.0);
    let seats = |width| ask(&fairness, alice(), width, LONG);
    let first = seats(Width::from_seats(2)).await.unwrap().unwrap();
    let second = seats(Width::from_seats(1));
    let third = seats(Width::from_seats(1));
    settle().await;
    assert_eq!((now(WAITING), now(EXECUTING)), (2.0, 2.0));
    clock.pass(Duration::from_millis(20));
    drop(first);
    let second = second.await.unwrap().unwrap();
    let third = third.await.unwrap().unwrap();
    assert_eq!(second.waited(), Duration::from_millis(20));
    assert_eq!((now(WAITING), now(EXECUTING)), (0.0, 2.0));
    // One request gives up, and one has a client that leaves.
    let impatient = ask(
        &fairness,
        alice(),
        Width::from_seats(1),
        Duration::from_secs(1),
    );
    let leaves = seats(Width::from_seats(1));
    settle().await;
    leaves.abort();
    let gave_up = impatient.await.unwrap();
    assert_eq!(gave_up.unwrap_err(), Rejected::TimeOut);
    assert_eq!((now(WAITING), now(EXECUTING)), (0.0, 2.0));
    let time_out = [OF_BUSY, ("flow_schema", "busy"), ("reason", "time-out")];
    assert_eq!(series(&registry, REJECTED, &time_out), Some(2.0));
    drop((second, third));
    assert_eq!(now(EXECUTING), 0.0);
}

#[tokio::test(start_paused = true)]
async fn full_queues_refuse() {
    let (fairness, _, registry) = engine(total_seats(2));
    fairness.configure(busy(2, 1, 3));
    let class = classify(&fairness, info("GET", "/api/v1/pods"), &alice());
    let _all = fairness
        .admit(&class, Width::from_seats(2), LONG)
        .await
        .unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| ask(&fairness, alice(), Width::from_seats(1), LONG))
        .collect();
    settle().await;
    let full = fairness.admit(&class, Width::from_seats(1), LONG).await;
    assert_eq!(full.unwrap_err(), Rejected::QueueFull);
    let queue_full = [OF_BUSY, ("reason", "queue-full")];
    assert_eq!(series(&registry, REJECTED, &queue_full), Some(1.0));
    // Another user's queue has room. Which user that is depends on the hash.
    let users = (0..10).map(|n| user(&format!("user-{n}"), &[]));
    let others: Vec<_> = users
        .map(|user| {
            ask(
                &fairness,
                user,
                Width::from_seats(1),
                Duration::from_secs(1),
            )
        })
        .collect();
    settle().await;
    let waiting_now = series(&registry, WAITING, &[OF_BUSY]);
    assert_eq!(waiting_now, Some(6.0));
    waiting.iter().chain(&others).for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn levels_without_queues_refuse_at_once() {
    let (fairness, _, registry) = engine(total_seats(4));
    fairness.configure(busy(2, 1, 3));
    // Only requests for resources match the schema; others go to the catch-all
    // schema.
    let user = user("alice", &["system:authenticated"]);
    let class = classify(&fairness, info("GET", "/version"), &user);
    assert_eq!(
        (class.priority_level(), class.max_seats()),
        ("catch-all", None)
    );
    let two = fairness
        .admit(&class, Width::from_seats(2), LONG)
        .await
        .unwrap();
    let refused = fairness.admit(&class, Width::from_seats(1), LONG).await;
    assert_eq!(refused.unwrap_err(), Rejected::ConcurrencyLimit);
    let limit = [
        ("priority_level", "catch-all"),
        ("reason", "concurrency-limit"),
    ];
    assert_eq!(series(&registry, REJECTED, &limit), Some(1.0));
    assert_eq!(fairness.retry_after(&class), 1);
    drop(two);
    // A request wider than the level executes alone.
    let wide = fairness
        .admit(&class, Width::from_seats(9), LONG)
        .await
        .unwrap();
    assert!(
        fairness
            .admit(&class, Width::from_seats(1), LONG)
            .await
            .is_err()
    );
    drop(wide);
}

#[tokio::test(start_paused = true)]
async fn exempt_requests_never_wait() {
    let (fairness, _, registry) = engine(1);
    let admin = user("admin", &["system:masters"]);
    let class = classify(&fairness, info("GET", "/api/v1/pods"), &admin);
    assert!(class.is_exempt());
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(
            fairness
                .admit(&class, Width::from_seats(10), LONG)
                .await
                .unwrap(),
        );
    }
    let exempt = [("priority_level", "exempt"), ("flow_schema", "exempt")];
    assert_eq!(series(&registry, EXECUTING, &exempt), Some(1000.0));
}

/// The seats of a request stay taken after its end. Only requests that want these
/// seats wait for them.
#[tokio::test(start_paused = true)]
async fn seats_stay_taken_for_the_additional_latency() {
    let (fairness, clock, registry) = engine(total_seats(2));
    fairness.configure(busy(4, 2, 5));
    let keeper = tokio::spawn(fairness.clone().run());
    settle().await;
    let width = Width {
        initial_seats: 1,
        final_seats: 2,
        additional_latency: Duration::from_millis(25),
    };
    let writer = ask(&fairness, alice(), width, LONG).await.unwrap().unwrap();
    drop(writer);
    let requests = "apiserver_flowcontrol_current_executing_requests";
    assert_eq!(series(&registry, requests, &[OF_BUSY]), Some(0.0));
    assert_eq!(series(&registry, EXECUTING, &[OF_BUSY]), Some(2.0));
    let next = ask(&fairness, alice(), Width::from_seats(1), LONG);
    settle().await;
    assert!(!next.is_finished());
    clock.pass(Duration::from_millis(25));
    // The task `run` ends the latency.
    let next = next.await.unwrap().unwrap();
    assert_eq!(next.waited(), Duration::from_millis(25));
    keeper.abort();
}

#[tokio::test(start_paused = true)]
async fn a_level_that_is_gone_ends_its_requests() {
    let (fairness, clock, registry) = engine(total_seats(2));
    fairness.configure(busy(4, 2, 5));
    let keeper = tokio::spawn(fairness.clone().run());
    let early = classify(&fairness, info("GET", "/api/v1/pods"), &alice());
    let first = ask(&fairness, alice(), Width::from_seats(2), LONG)
        .await
        .unwrap()
        .unwrap();
    let second = ask(&fairness, alice(), Width::from_seats(1), LONG);
    settle().await;
    fairness.configure(Default::default());
    let levels = fairness.dump_priority_levels();
    let row = levels
        .lines()
        .find(|line| line.starts_with("busy,"))
        .unwrap();
    let words: Vec<&str> = row.split(',').map(str::trim).collect();
    assert_eq!(words[..6], ["busy", "1", "false", "true", "1", "1"]);
    // New requests go to another level; the waiting one keeps its place.
    let user = user("alice", &["system:authenticated"]);
    let class = classify(&fairness, info("GET", "/api/v1/pods"), &user);
    assert_eq!(class.priority_level(), "catch-all");
    clock.pass(Duration::from_millis(1));
    drop(first);
    drop(second.await.unwrap().unwrap());
    settle().await;
    assert!(!fairness.dump_priority_levels().contains("busy"));
    assert_eq!(series(&registry, EXECUTING, &[OF_BUSY]), None);
    // A request that was classified earlier goes to the level where it would go
    // now.
    let late = fairness
        .admit(&early, Width::from_seats(1), LONG)
        .await
        .unwrap();
    let elsewhere = [("priority_level", "catch-all"), ("flow_schema", "busy")];
    assert_eq!(series(&registry, EXECUTING, &elsewhere), Some(1.0));
    drop(late);
    assert_eq!(series(&registry, EXECUTING, &elsewhere), None);
    keeper.abort();
}
