use futures::FutureExt;
use kubernetes_wire::request::RequestInfo;
use prometheus::Registry;

use super::*;
use kubernetes_wire::api::user::MASTERS;

fn flow(in_flight: Option<InFlightLimits>, total_seats: usize) -> Flow {
    let metrics = FlowMetrics::register(&Registry::new()).unwrap();
    let limits = Limits {
        in_flight,
        queue_wait: Duration::from_secs(15),
    };
    Flow::limited(limits, Settings { total_seats }, metrics)
}

fn limited(read_only: usize, mutating: usize) -> Flow {
    flow(
        Some(InFlightLimits {
            read_only,
            mutating,
        }),
        600,
    )
}

fn fair() -> Flow {
    flow(None, 600)
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        ..UserInfo::default()
    }
}

fn info(method: http::Method, path: &str) -> RequestInfo {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    RequestInfo::parse(&method, path, &kubernetes_wire::api::Query::parse(query)).unwrap()
}

fn admit(flow: &Flow, kind: RequestKind, user: &UserInfo) -> Result<Admitted, Refused> {
    start(flow, kind, user, None)
}

/// Begins a request that does not have to wait.
fn start(
    flow: &Flow,
    kind: RequestKind,
    user: &UserInfo,
    class: Option<&Classification>,
) -> Result<Admitted, Refused> {
    match flow.start(kind, user, class, Width::from_seats(1))? {
        Started::Admitted(admitted) => Ok(admitted),
        Started::Waits(_) => panic!("there are no seats"),
    }
}

use RequestKind::{LongRunning, Mutating, ReadOnly, Watch};

#[test]
fn without_fairness_more_than_the_limit_is_refused_at_once() {
    let flow = limited(2, 1);
    let user = user("a", &[]);
    let first = admit(&flow, ReadOnly, &user).unwrap();
    let _second = admit(&flow, ReadOnly, &user).unwrap();
    let refused = admit(&flow, ReadOnly, &user).unwrap_err();
    assert_eq!(refused.retry_after, 1);
    // Writes have their own limit, and watches and streams have none.
    let _write = admit(&flow, Mutating, &user).unwrap();
    assert!(admit(&flow, Mutating, &user).is_err());
    for kind in [Watch, LongRunning] {
        let all: Vec<_> = (0..9).map(|_| admit(&flow, kind, &user)).collect();
        assert!(all.iter().all(Result::is_ok));
    }
    drop(first);
    assert!(admit(&flow, ReadOnly, &user).is_ok());
}

#[test]
fn without_fairness_administrators_are_never_refused() {
    let flow = limited(1, 0);
    let (user, admin) = (user("a", &[]), user("root", &[MASTERS]));
    let _seat = admit(&flow, ReadOnly, &user).unwrap();
    let all: Vec<_> = (0..9).map(|_| admit(&flow, ReadOnly, &admin)).collect();
    assert!(all.iter().all(Result::is_ok));
    assert!(admit(&flow, ReadOnly, &user).is_err());
    // They took no seats of others.
    flow.publish();
    assert_eq!(flow.metrics.read_only.get(), 1);
    // 0 means no limit.
    let all: Vec<_> = (0..1000).map(|_| admit(&flow, Mutating, &user)).collect();
    assert!(all.iter().all(Result::is_ok));
}

#[test]
fn requests_are_classified_as_kube_apiserver_classifies_them() {
    use http::Method;
    let (fair, limited) = (fair(), limited(1, 1));
    let user = user("a", &["people"]);
    for (method, path, expected) in [
        (Method::GET, "/api/v1/pods", Some(ReadOnly)),
        (Method::POST, "/api/v1/namespaces/n/pods", Some(Mutating)),
        (Method::GET, "/api/v1/pods?watch=1", Some(Watch)),
        (Method::GET, "/version", Some(ReadOnly)),
        (Method::GET, "/api/v1/namespaces/n/pods/p/log", None),
        (Method::POST, "/api/v1/namespaces/n/pods/p/exec", None),
    ] {
        let info = info(method, path);
        let kind = RequestKind::from_info(&info);
        assert_eq!(kind, expected.unwrap_or(LongRunning), "{path}");
        let request = Arc::new((info, user.clone()));
        let class = fair.classify(kind, request.clone());
        assert_eq!(class.is_some(), expected.is_some(), "{path}");
        assert!(limited.classify(kind, request).is_none());
    }
}

#[test]
fn seats_of_a_level_are_counted_by_kind() {
    let flow = fair();
    let user = user("a", &["people"]);
    let mut held = Vec::new();
    for (method, path) in [
        (http::Method::GET, "/api/v1/pods"),
        (http::Method::GET, "/api/v1/pods?watch=1"),
        (http::Method::DELETE, "/api/v1/namespaces/n/pods/p"),
    ] {
        let info = info(method, path);
        let kind = RequestKind::from_info(&info);
        let class = flow.classify(kind, Arc::new((info, user.clone())));
        held.push(start(&flow, kind, &user, class.as_ref()).unwrap());
    }
    flow.publish();
    let metrics = &flow.metrics;
    assert_eq!((metrics.read_only.get(), metrics.mutating.get()), (2, 1));
    held.clear();
    for expected in [2, 0] {
        flow.publish();
        assert_eq!(metrics.read_only.get(), expected);
    }
}

/// The slot is free as soon as the answer begins. A user with too many waiting
/// answers keeps the slots of further ones.
#[tokio::test]
async fn an_answer_that_waits_holds_bytes_instead_of_a_slot() {
    let flow = fair();
    let (slow, other) = (user("slow", &[]), user("other", &[]));
    let taken = || flow.metrics.forwarded.in_flight.taken.get();
    let mut waiting = Vec::new();
    let kept = loop {
        let slot = flow.forwarded().in_flight.take(Some(&slow)).unwrap();
        let mut admitted = Admitted::default().with_slot(slot);
        flow.answer_begins(&mut admitted, Some(&slow));
        if taken() > 0 {
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
    assert_eq!((flow.metrics.answer_bytes.get(), taken()), (0, 0));
    // Administrators are not limited.
    let admin = user("root", &[MASTERS]);
    let all = (0..10_000).map(|_| flow.hold_waiting(Some(&admin)));
    assert!(all.collect::<Vec<_>>().iter().all(Option::is_some));
}

#[tokio::test]
async fn turns_aside_go_round_among_users() {
    let flow = fair();
    let greedy = user("greedy", &[]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // One user leaves a core to the others.
    let most = cores.saturating_sub(1).max(1);
    let mut turns: Vec<_> = (0..most)
        .map(|_| flow.turn(Some(&greedy)).now_or_never().unwrap().unwrap())
        .collect();
    let mut waiting: Vec<_> = (0..100).map(|_| flow.turn(Some(&greedy)).boxed()).collect();
    assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
    // Other users do not wait for the greedy user.
    let others: Vec<_> = (most..2 * cores)
        .map(|n| user(&format!("other-{n}"), &[]))
        .map(|other| flow.turn(Some(&other)).now_or_never().unwrap().unwrap())
        .collect();
    // One user more must wait until any turn ends.
    let last = user("last", &[]);
    let mut late = flow.turn(Some(&last)).boxed();
    assert!((&mut late).now_or_never().is_none());
    turns.pop();
    let taken = (&mut late).now_or_never().unwrap().unwrap();
    assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
    drop((turns, others, taken));
    assert!(waiting.iter_mut().any(|turn| turn.now_or_never().is_some()));
}
