use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus::Registry;

use super::*;
use crate::metrics::FlowMetrics;

const PATIENT: QueuePolicy = QueuePolicy {
    queue_length: 100,
    wait: Duration::from_secs(15),
};

fn pool(limit: usize) -> Arc<Pool> {
    let metrics = FlowMetrics::register(&Registry::new()).unwrap();
    Pool::new(limit, metrics.pool("test"))
}

type Asked = BoxFuture<'static, Result<Seat, Rejected>>;

/// Asks, and waits in the queue if it must.
fn ask(pool: &Arc<Pool>, flow: &'static str, policy: QueuePolicy) -> Result<Seat, Asked> {
    let pool = pool.clone();
    let mut asked = async move { pool.seat(flow, policy).await }.boxed();
    match (&mut asked).now_or_never() {
        Some(seat) => Ok(seat.unwrap()),
        None => Err(asked),
    }
}

fn state(pool: &Pool) -> (usize, usize, usize, usize) {
    let state = pool.state.lock();
    let turns = state.turns.len();
    (state.executing, state.waiting, state.flows.len(), turns)
}

#[tokio::test]
async fn seats_go_round_among_the_flows() {
    let pool = pool(1);
    let mut seat = ask(&pool, "greedy", PATIENT).ok();
    let mut waiting: Vec<(&str, Asked)> = Vec::new();
    for flow in ["greedy"; 10].into_iter().chain(["a", "b", "a", "c"]) {
        waiting.push((flow, ask(&pool, flow, PATIENT).unwrap_err()));
    }
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(seat.take());
        let at = waiting.iter_mut().position(|(_, asked)| {
            seat = asked.now_or_never().map(Result::unwrap);
            seat.is_some()
        });
        order.push(waiting.remove(at.unwrap()).0);
    }
    // Nobody waits for more than one seat of each of the others.
    assert_eq!(order[..6], ["greedy", "a", "b", "c", "greedy", "a"]);
    assert_eq!(order[6..], ["greedy"; 8]);
    drop(seat);
    assert_eq!(state(&pool), (0, 0, 0, 0));
    assert!(pool.is_idle());
}

#[tokio::test(start_paused = true)]
async fn who_leaves_leaves_nothing_behind() {
    let pool = pool(1);
    let seat = ask(&pool, "a", PATIENT).ok();
    let first = ask(&pool, "a", PATIENT).unwrap_err();
    let second = ask(&pool, "b", PATIENT).unwrap_err();
    assert_eq!(state(&pool), (1, 2, 2, 2));
    assert_eq!(pool.metrics.waiting.get(), 2);
    drop(first);
    assert_eq!(state(&pool), (1, 1, 1, 1));
    // Given a seat that it never learns of.
    drop(seat);
    assert_eq!(state(&pool), (1, 0, 0, 0));
    drop(second);
    assert_eq!(state(&pool), (0, 0, 0, 0));
    assert_eq!(pool.metrics.waiting.get(), 0);
    // Given up.
    let seat = ask(&pool, "a", PATIENT).ok();
    let late = pool.seat("b", PATIENT).await;
    assert_eq!(late.unwrap_err(), Rejected::TimeOut);
    drop(seat);
    assert_eq!(state(&pool), (0, 0, 0, 0));
}

#[tokio::test]
async fn queues_are_bounded_by_flow() {
    let pool = pool(1);
    let two = QueuePolicy {
        queue_length: 2,
        ..PATIENT
    };
    let _seat = ask(&pool, "a", two).ok();
    let _waiting = [ask(&pool, "a", two), ask(&pool, "a", two)];
    let full = pool.seat("a", two).now_or_never().unwrap();
    assert_eq!(full.unwrap_err(), Rejected::QueueFull);
    let _other_flow = ask(&pool, "b", two).unwrap_err();
    let none = QueuePolicy {
        queue_length: 0,
        ..PATIENT
    };
    let at_once = pool.seat("c", none).now_or_never().unwrap();
    assert_eq!(at_once.unwrap_err(), Rejected::ConcurrencyLimit);
}

#[tokio::test]
async fn a_new_limit_holds_for_those_who_wait() {
    let pool = pool(1);
    let _seats = [ask(&pool, "a", PATIENT).ok()];
    let mut waiting = [
        ask(&pool, "a", PATIENT).unwrap_err(),
        ask(&pool, "a", PATIENT).unwrap_err(),
    ];
    pool.set_limit(2);
    assert_eq!(state(&pool), (2, 1, 1, 1));
    let _first = (&mut waiting[0]).now_or_never().unwrap();
    pool.set_limit(0);
    let _second = (&mut waiting[1]).now_or_never().unwrap();
    assert_eq!(pool.executing().1, 3);
}

/// One flow has filled all queues: others come in for its last ones, and
/// their own turn comes first.
#[tokio::test]
async fn a_full_queue_has_room_for_whoever_has_less_in_it() {
    let pool = pool(1);
    pool.state.lock().most_waiting = 10;
    let endless = QueuePolicy {
        queue_length: usize::MAX,
        ..PATIENT
    };
    let mut seat = ask(&pool, "greedy", endless).ok();
    let greedy: Vec<Asked> = (0..10)
        .map(|_| ask(&pool, "greedy", endless).unwrap_err())
        .collect();
    let full = pool.seat("greedy", endless).now_or_never().unwrap();
    assert_eq!(full.unwrap_err(), Rejected::QueueFull);
    let mut others: Vec<Asked> = ["a", "b", "a"]
        .map(|flow| ask(&pool, flow, endless).unwrap_err())
        .into();
    assert_eq!(state(&pool), (1, 10, 3, 3));
    // Its newest have lost their places, and take nothing with them.
    let mut told: Vec<Option<Rejected>> = Vec::new();
    let mut kept = Vec::new();
    for mut asked in greedy {
        match (&mut asked).now_or_never() {
            Some(answer) => told.push(answer.err()),
            None => kept.push(asked),
        }
    }
    assert_eq!(told, [Some(Rejected::QueueFull); 3]);
    assert_eq!((kept.len(), state(&pool)), (7, (1, 10, 3, 3)));
    // The first of the greedy one, then the others, whoever came before.
    drop(seat.take());
    drop((&mut kept[0]).now_or_never().unwrap().unwrap());
    let first = (&mut others[0]).now_or_never().unwrap().unwrap();
    drop(first);
    assert!((&mut others[1]).now_or_never().is_some());
    drop((kept, others));
    assert_eq!(state(&pool), (0, 0, 0, 0));
    assert!(pool.is_idle());
}

#[tokio::test]
async fn the_queues_of_many_flows_are_bounded_together() {
    let pool = pool(1);
    pool.state.lock().most_waiting = 3;
    let _seat = ask(&pool, "a", PATIENT).ok();
    let _waiting: Vec<Asked> = ["a", "b", "c"]
        .map(|flow| ask(&pool, flow, PATIENT).unwrap_err())
        .into();
    let full = pool.seat("d", PATIENT).now_or_never().unwrap();
    assert_eq!(full.unwrap_err(), Rejected::QueueFull);
}

#[tokio::test]
async fn places_of_several_seats() {
    let pool = pool(10);
    let seats = |flow: &'static str, seats| {
        let pool = pool.clone();
        async move { pool.seats(flow, seats, PATIENT).await }.boxed()
    };
    let mut six = seats("a", 6).now_or_never().unwrap().unwrap();
    let mut five = seats("a", 5);
    assert!((&mut five).now_or_never().is_none());
    // There is room for it, but it is not its turn.
    let mut two = seats("b", 2);
    assert!((&mut two).now_or_never().is_none());
    assert!(pool.try_seats(1).is_none());
    six.resize(5);
    let five = (&mut five).now_or_never().unwrap().unwrap();
    assert!((&mut two).now_or_never().is_none());
    six.resize(20);
    assert_eq!(pool.executing().0, 25);
    drop((six, five));
    let _two = (&mut two).now_or_never().unwrap().unwrap();
    // A request larger than the pool waits until the pool is empty.
    let mut large = seats("c", 50);
    assert!((&mut large).now_or_never().is_none());
    drop(_two);
    assert!((&mut large).now_or_never().unwrap().is_ok());
    assert!(pool.is_idle());
}
