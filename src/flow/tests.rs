use futures::FutureExt;
use prometheus::Registry;

use super::*;

fn config(user: usize, groups: &[(&str, usize)]) -> config::Flow {
    config::Flow {
        user_concurrency_limit: user,
        group_concurrency_limits: groups.iter().map(|(g, n)| ((*g).to_owned(), *n)).collect(),
        ..config::Flow::default()
    }
}

fn flow(reads: usize, writes: usize, limits: &config::Flow) -> Flow {
    let metrics = FlowMetrics::register(&Registry::new()).unwrap();
    let flow = Flow::unlimited(metrics);
    flow.set_limits(reads, writes, limits);
    flow
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        ..UserInfo::default()
    }
}

/// `None`: it waits, and here it leaves again.
fn admit(flow: &Flow, kind: RequestKind, user: &UserInfo) -> Option<Result<Admitted, Rejected>> {
    flow.admit(kind, user).now_or_never()
}

use RequestKind::{LongRunning, Mutating, ReadOnly, WatchStart};

#[tokio::test]
async fn requests_over_the_limit_are_refused_until_one_ends() {
    let flow = flow(2, 1, &config(0, &[]));
    let user = user("a", &[]);
    let first = admit(&flow, ReadOnly, &user).unwrap().unwrap();
    let _second = admit(&flow, ReadOnly, &user).unwrap().unwrap();
    let refused = admit(&flow, ReadOnly, &user).unwrap();
    assert_eq!(refused.unwrap_err(), Rejected::ConcurrencyLimit);
    // The other lane is another lane, and the start of a watch waits.
    assert!(admit(&flow, Mutating, &user).unwrap().is_ok());
    let _starts: Vec<_> = (0..2)
        .map(|_| admit(&flow, WatchStart, &user).unwrap())
        .collect();
    assert!(admit(&flow, WatchStart, &user).is_none());
    drop(first);
    assert!(admit(&flow, ReadOnly, &user).unwrap().is_ok());
}

#[tokio::test]
async fn streams_and_administrators_are_exempt() {
    let flow = flow(1, 1, &config(1, &[("staff", 1)]));
    let (staff, admin) = (user("a", &["staff"]), user("root", &["staff", MASTERS]));
    let _write = admit(&flow, Mutating, &staff).unwrap().unwrap();
    let _held: Vec<_> = [
        (LongRunning, &staff),
        (Mutating, &admin),
        (WatchStart, &admin),
    ]
    .map(|(kind, user)| admit(&flow, kind, user).unwrap().unwrap())
    .into();
    assert!(admit(&flow, WatchStart, &admin).unwrap().is_ok());
    // The user's own limit makes it wait.
    assert!(admit(&flow, Mutating, &staff).is_none());
}

#[tokio::test]
async fn users_and_groups_are_limited_apart() {
    let flow = flow(0, 0, &config(2, &[("a-team", 3), ("staff", 4)]));
    let mut held = Vec::new();
    for (name, groups, expected) in [
        ("a", &["a-team"][..], true),
        ("a", &["a-team"], true),
        // Its own limit.
        ("a", &["a-team"], false),
        ("b", &["a-team", "staff"], true),
        // The limit of the a-team is reached.
        ("c", &["staff", "a-team"], false),
        ("c", &["staff"], true),
        ("d", &["staff"], true),
        ("d", &["staff"], true),
        // The limit of the staff is reached.
        ("e", &["staff"], false),
        ("e", &["others"], true),
    ] {
        let admitted = admit(&flow, ReadOnly, &user(name, groups));
        assert_eq!(admitted.is_some(), expected, "{name} {groups:?}");
        held.extend(admitted);
    }
    // One that waited and left has left the pools it passed, too.
    flow.publish();
    assert_eq!(flow.metrics.read_only.get(), 7);
    let gauge = |name: &str| flow.metrics.executing_of(name);
    assert_eq!((gauge("user"), gauge("a-team"), gauge("staff")), (7, 3, 4));
    held.clear();
    flow.publish();
    assert_eq!((gauge("user"), gauge("a-team"), gauge("staff")), (0, 0, 0));
}

#[tokio::test]
async fn a_reload_lets_in_who_waits() {
    let flow = flow(0, 0, &config(0, &[("staff", 1)]));
    let staff = user("a", &["staff"]);
    let _held = admit(&flow, ReadOnly, &staff);
    let mut waiting = Box::pin(flow.admit(ReadOnly, &staff));
    assert!((&mut waiting).now_or_never().is_none());
    flow.set_limits(0, 0, &config(0, &[]));
    assert!((&mut waiting).now_or_never().is_some());
    flow.set_limits(0, 0, &config(0, &[("staff", 1)]));
    assert!(admit(&flow, ReadOnly, &staff).unwrap().is_ok());
}

/// Its seat is another's as soon as the answer begins; who has too many
/// answers waiting keeps the seats of the others.
#[tokio::test]
async fn an_answer_that_waits_holds_bytes_instead_of_a_seat() {
    let flow = flow(1, 1, &config(0, &[]));
    let (slow, other) = (user("slow", &[]), user("other", &[]));
    let mut waiting = Vec::new();
    let kept = loop {
        let mut admitted = admit(&flow, ReadOnly, &slow).unwrap().unwrap();
        flow.answer_begins(&mut admitted, Some(&slow));
        if flow.read_only.executing().0 > 0 {
            break admitted;
        }
        waiting.push(admitted);
    };
    assert_eq!(
        waiting.len(),
        response_bytes::USER_BYTES / response_bytes::WAITING_ANSWER
    );
    assert!(flow.hold_waiting(Some(&slow)).is_none());
    assert!(flow.hold_waiting(Some(&other)).is_some());
    flow.publish();
    let bytes = i64::try_from(response_bytes::USER_BYTES).unwrap();
    assert_eq!(flow.metrics.answer_bytes.get(), bytes);
    drop((kept, waiting));
    assert!(flow.hold_waiting(Some(&slow)).is_some());
    flow.publish();
    assert_eq!(flow.metrics.answer_bytes.get(), 0);
    // Administrators are not held up.
    let admin = user("root", &[MASTERS]);
    let all = (0..10_000).map(|_| flow.hold_waiting(Some(&admin)));
    assert!(all.collect::<Vec<_>>().iter().all(Option::is_some));
}

#[tokio::test]
async fn turns_aside_go_round_among_users() {
    let flow = flow(0, 0, &config(0, &[]));
    let greedy = user("greedy", &[]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // One user leaves a core to the others.
    let most = cores.saturating_sub(1).max(1);
    let mut turns: Vec<_> = (0..most)
        .map(|_| flow.turn(Some(&greedy)).now_or_never().unwrap().unwrap())
        .collect();
    let mut waiting: Vec<_> = (0..100).map(|_| flow.turn(Some(&greedy)).boxed()).collect();
    assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
    // Other users wait for nobody's end.
    let others: Vec<_> = (most..2 * cores)
        .map(|n| user(&format!("other-{n}"), &[]))
        .map(|other| flow.turn(Some(&other)).now_or_never().unwrap().unwrap())
        .collect();
    // One more waits for one turn of anybody.
    let last = user("last", &[]);
    let mut late = flow.turn(Some(&last)).boxed();
    assert!((&mut late).now_or_never().is_none());
    turns.pop();
    let taken = (&mut late).now_or_never().unwrap().unwrap();
    assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
    drop((turns, others, taken));
    assert!(waiting.iter_mut().any(|turn| turn.now_or_never().is_some()));
}

#[tokio::test]
async fn zero_is_no_limit() {
    let flow = flow(0, 0, &config(0, &[]));
    let user = user("a", &[]);
    let all = (0..1000).map(|_| admit(&flow, Mutating, &user).unwrap());
    assert!(all.collect::<Vec<_>>().iter().all(Result::is_ok));
}

#[tokio::test]
async fn the_gauge_shows_the_most_of_the_last_second() {
    let flow = flow(2, 1, &config(0, &[]));
    let user = user("a", &[]);
    let one = admit(&flow, ReadOnly, &user).unwrap().unwrap();
    drop(admit(&flow, ReadOnly, &user).unwrap().unwrap());
    for (expected, end) in [(2, None), (1, Some(one)), (1, None), (0, None)] {
        flow.publish();
        assert_eq!(flow.metrics.read_only.get(), expected);
        drop(end);
    }
}
