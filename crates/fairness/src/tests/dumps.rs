//! The texts of `/debug/api_priority_and_fairness`.

use std::time::Duration;

use futures::FutureExt;

use super::support::{busy, classify, engine, info, total_seats, user};
use crate::Width;

const LONG: Duration = Duration::from_secs(15);

#[tokio::test(start_paused = true)]
async fn dumps_show_levels_queues_and_requests() {
    let (fairness, clock, _registry) = engine(total_seats(2));
    fairness.configure(busy(2, 1, 3));
    clock.pass(Duration::from_millis(1500));
    let alice = user("alice", &[]);
    let class = classify(
        &fairness,
        info("GET", "/api/v1/namespaces/shop/pods/p/log"),
        &alice,
    );
    let width = Width {
        initial_seats: 2,
        final_seats: 1,
        additional_latency: Duration::from_millis(5),
    };
    let executing = fairness.admit(&class, width, LONG).await.unwrap();
    clock.pass(Duration::from_millis(10));
    let class = classify(
        &fairness,
        info("DELETE", "/apis/apps/v1/deployments"),
        &alice,
    );
    let mut waiting = Box::pin(fairness.admit(&class, Width::from_seats(1), LONG));
    assert!((&mut waiting).now_or_never().is_none());
    let levels = fairness.dump_priority_levels();
    let expected = "\
PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ExecutingRequests, DispatchedRequests, RejectedRequests, TimedoutRequests, CancelledRequests
busy,              1,            false,  false,       1,               1,                 1,                  0,                0,                0
catch-all,         0,            true,   false,       0,               0,                 0,                  0,                0,                0
exempt,            0,            true,   false,       0,               0,                 0,                  0,                0,                0
";
    assert_eq!(levels, expected);
    let queue = class.flow() % 2;
    let queues: Vec<String> = fairness.dump_queues().lines().map(str::to_owned).collect();
    assert_eq!(
        queues[0],
        "PriorityLevelName, Index,  PendingRequests, ExecutingRequests, SeatsInUse, NextDispatchR, InitialSeatsSum, MaxSeatsSum, TotalWorkSum"
    );
    // Its two seats are estimated to take 3 ms, and one of them 5 ms more. All
    // seats were in use for 10 ms, in which the progress meter rose by 0.02.
    let row = format!(
        "busy,              {queue},      1,               1,                 2,          0.02000000ss,  1,               1,           0.00300000ss"
    );
    assert!(queues.contains(&row), "{queues:#?}");
    assert_eq!(queues.len(), 3);
    let requests = fairness.dump_requests(false);
    let expected = format!(
        "\
PriorityLevelName, FlowSchemaName, QueueIndex, RequestIndexInQueue, FlowDistingsher, ArriveTime,              InitialSeats, FinalSeats, AdditionalLatency, StartTime
busy,              busy,           {queue},          0,                   alice,           1970-01-12T13:46:41.51Z, 1,            0,          0s,                0001-01-01T00:00:00Z
busy,              busy,           {queue},          -1,                  alice,           1970-01-12T13:46:41.5Z,  2,            1,          5ms,               1970-01-12T13:46:41.5Z
"
    );
    assert_eq!(requests, expected);
    let details: Vec<String> = fairness
        .dump_requests(true)
        .lines()
        .map(str::to_owned)
        .collect();
    let words = |line: &str| -> Vec<String> {
        line.split(',')
            .skip(10)
            .map(|word| word.trim().to_owned())
            .collect()
    };
    assert_eq!(
        words(&details[1]),
        [
            "alice",
            "deletecollection",
            "/apis/apps/v1/deployments",
            "",
            "",
            "apps/v1",
            "deployments",
            ""
        ]
    );
    assert_eq!(
        words(&details[2]),
        [
            "alice",
            "get",
            "/api/v1/namespaces/shop/pods/p/log",
            "shop",
            "p",
            "v1",
            "pods",
            "log"
        ]
    );
    drop(executing);
}
