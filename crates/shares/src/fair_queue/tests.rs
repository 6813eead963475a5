use futures::FutureExt;
use futures::future::BoxFuture;

use super::*;

type Caller = &'static str;
type Waits = BoxFuture<'static, Result<Turn<Caller>, QueueFull>>;

fn queue_of(at_a_time: usize, of_one: usize, waiting: usize) -> Arc<FairQueue<Caller>> {
    FairQueue::new(QueueLimits {
        at_a_time,
        at_a_time_of_one: of_one,
        waiting,
        waiting_of_one: 0,
    })
}

fn turn(queue: &Arc<FairQueue<Caller>>, caller: Caller, weight: usize) -> Turn<Caller> {
    queue.try_take(&caller, weight).expect("a free turn")
}

fn waits(queue: &Arc<FairQueue<Caller>>, caller: Caller, weight: usize) -> Waits {
    match queue.ask(&caller, weight) {
        Ok(Asked::Queued(queued)) => queued.turn().boxed(),
        asked => panic!("{caller} does not wait: {asked:?}"),
    }
}

fn came(waits: &mut Waits) -> Option<Turn<Caller>> {
    waits.now_or_never().map(|turn| turn.expect("a turn"))
}

fn was_refused(waits: &mut Waits) -> bool {
    waits.now_or_never().is_some_and(|turn| turn.is_err())
}

/// Gives the waiters one turn after the other, and returns their order.
fn order(mut held: Option<Turn<Caller>>, mut waiting: Vec<(Caller, Waits)>) -> Vec<Caller> {
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(held.take());
        let at = waiting.iter_mut().position(|(_, waits)| {
            held = came(waits);
            held.is_some()
        });
        order.push(waiting.remove(at.expect("somebody is next")).0);
    }
    order
}

#[test]
fn turns_go_round_among_the_callers() {
    let queue = queue_of(1, 0, 0);
    let held = turn(&queue, "greedy", 1);
    let asked = ["greedy"; 10].into_iter().chain(["a", "b", "a", "c"]);
    let waiting = asked.map(|caller| (caller, waits(&queue, caller, 1)));
    let order = order(Some(held), waiting.collect());
    // Nobody waits for more than one turn of each of the other callers.
    assert_eq!(order[..6], ["greedy", "a", "b", "c", "greedy", "a"]);
    assert_eq!(order[6..], ["greedy"; 8]);
    assert!(queue.is_idle(), "nobody is remembered");
}

#[test]
fn who_had_its_part_goes_behind_the_others() {
    let queue = queue_of(1, 1, 0);
    let held = turn(&queue, "a", 1);
    let waiting = ["a", "a", "b", "b", "c"].map(|caller| (caller, waits(&queue, caller, 1)));
    let order = order(Some(held), waiting.into());
    assert_eq!(order, ["b", "c", "a", "b", "a"]);
    assert!(queue.is_idle());
}

#[test]
fn one_caller_leaves_turns_for_the_others() {
    let queue = queue_of(4, 3, 0);
    let mut held: Vec<_> = (0..3).map(|_| turn(&queue, "flood", 1)).collect();
    let mut more = waits(&queue, "flood", 1);
    assert!(came(&mut more).is_none());
    let jane = turn(&queue, "jane", 1);
    held.pop();
    let more = came(&mut more).expect("its part has room");
    drop((held, more, jane));
    assert!(queue.is_idle());
}

/// Many waiters of a caller at its own limit cost the others nothing, and get their
/// turns.
#[test]
fn those_who_wait_for_their_own_turns_hold_up_nobody() {
    let queue = queue_of(2, 1, 0);
    let (a, b) = (turn(&queue, "a", 1), turn(&queue, "b", 1));
    let mut of_a = waits(&queue, "a", 1);
    let mut of_c = waits(&queue, "c", 1);
    drop(b);
    let c = came(&mut of_c).expect("a has its part");
    assert!(came(&mut of_a).is_none());
    drop(a);
    drop((came(&mut of_a).expect("its own turn ended"), c));
    assert!(queue.is_idle());
}

#[tokio::test]
async fn who_has_the_most_waiting_is_refused() {
    let queue = queue_of(1, 1, 4);
    let held = turn(&queue, "a", 1);
    let mut flood: Vec<_> = (0..4).map(|_| waits(&queue, "flood", 1)).collect();
    assert_eq!(queue.take(&"flood").await.err(), Some(QueueFull));
    let jane = waits(&queue, "jane", 1);
    assert!(was_refused(&mut flood.pop().unwrap()));
    assert_eq!(queue.waiting(), 4);
    let again = waits(&queue, "jane", 1);
    assert!(was_refused(&mut flood.pop().unwrap()));
    // Both callers have two waiters: nobody has more than the newcomer would have.
    assert_eq!(queue.take(&"jane").await.err(), Some(QueueFull));
    assert!(came(&mut flood[0]).is_none() && queue.waiting() == 4);
    drop((held, flood, jane, again));
    assert!(queue.is_idle());
}

#[test]
fn the_waiting_of_one_have_a_limit() {
    let queue = FairQueue::new(QueueLimits {
        at_a_time: 1,
        at_a_time_of_one: 1,
        waiting: 0,
        waiting_of_one: 2,
    });
    let _held = turn(&queue, "a", 1);
    let _two = [waits(&queue, "a", 1), waits(&queue, "a", 1)];
    assert_eq!(queue.ask(&"a", 1).err(), Some(QueueFull));
    let _other = waits(&queue, "b", 1);
}

#[test]
fn who_goes_away_leaves_nothing_behind() {
    let queue = queue_of(1, 1, 10);
    let held = turn(&queue, "a", 1);
    let gone = waits(&queue, "b", 1);
    let stays = waits(&queue, "c", 1);
    drop(gone);
    assert_eq!(queue.waiting(), 1);
    drop(held);
    // The caller has got the turn, and leaves before it learns of it.
    drop(stays);
    assert!(queue.is_idle());
}

#[test]
fn turns_have_weights() {
    let queue = queue_of(10, 0, 0);
    let mut six = turn(&queue, "a", 6);
    let mut five = waits(&queue, "a", 5);
    // There is room for it, but it is not next.
    let mut two = waits(&queue, "b", 2);
    assert!(queue.try_take(&"c", 1).is_none());
    six.set_weight(5);
    let five = came(&mut five).unwrap();
    assert!(came(&mut two).is_none());
    six.set_weight(20);
    assert_eq!(queue.taken(), 25);
    drop((six, five));
    let two = came(&mut two).unwrap();
    // A turn larger than the limit has to wait until it is alone.
    let mut large = waits(&queue, "c", 50);
    let mut small = waits(&queue, "d", 1);
    drop(two);
    let large = came(&mut large).unwrap();
    assert!(came(&mut small).is_none());
    drop(large);
    drop(came(&mut small).unwrap());
    assert!(queue.is_idle());
}

/// A waiter who leaves may have been the only one that the others waited for.
#[test]
fn a_large_one_that_leaves_lets_the_others_go() {
    let queue = queue_of(10, 0, 0);
    let held = turn(&queue, "a", 6);
    let large = waits(&queue, "b", 5);
    let mut small = waits(&queue, "c", 4);
    let mut smaller = waits(&queue, "a", 4);
    drop(large);
    let small = came(&mut small).unwrap();
    assert!(came(&mut smaller).is_none());
    drop((held, small));
    drop(came(&mut smaller).unwrap());
    assert!(queue.is_idle());
}

/// Whatever callers do, no turn is lost, limits hold, and nobody waits who could
/// have a turn.
#[test]
fn more_turns_go_to_those_who_wait() {
    let queue = queue_of(2, 1, 0);
    let held = [turn(&queue, "a", 1), turn(&queue, "b", 1)];
    let mut a = [(); 2].map(|()| waits(&queue, "a", 1));
    let mut c = waits(&queue, "c", 1);
    queue.set_turns(4, 2);
    let more = [came(&mut a[0]), came(&mut c)].map(|turn| turn.expect("a turn"));
    assert!(came(&mut a[1]).is_none(), "over its own limit");
    // With fewer turns, all those that are taken stay.
    queue.set_turns(1, 1);
    assert_eq!(queue.taken(), 4);
    drop((held, more));
    assert!(came(&mut a[1]).is_some());
    drop(a);
    assert!(queue.is_idle());
}

#[test]
fn random_callers_keep_the_rules() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from((state >> 33) % below).unwrap()
    };
    let names = ["a", "b", "c", "d", "e"];
    for _ in 0..200 {
        let (mut all, mut one) = (1 + random(8), random(6));
        let queue = queue_of(all, one, 6);
        let mut held: Vec<(Caller, usize, Turn<Caller>)> = Vec::new();
        let mut waiting: Vec<(Caller, usize, Waits)> = Vec::new();
        for _ in 0..200 {
            let (caller, weight) = (names[random(5)], 1 + random(3));
            match random(5) {
                0 | 1 => match queue.ask(&caller, weight) {
                    Ok(Asked::Turn(turn)) => held.push((caller, weight, turn)),
                    Ok(Asked::Queued(queued)) => {
                        waiting.push((caller, weight, queued.turn().boxed()));
                    }
                    Err(QueueFull) => {}
                },
                2 if !held.is_empty() => drop(held.swap_remove(random(held.len() as u64))),
                3 if !waiting.is_empty() => {
                    drop(waiting.swap_remove(random(waiting.len() as u64)));
                }
                4 => {
                    // More turns: with fewer, those that are taken would be too many.
                    all += random(2);
                    one += if one == 0 { 0 } else { random(2) };
                    queue.set_turns(all, one);
                }
                _ => {}
            }
            let mut left = Vec::new();
            for (caller, weight, mut waits) in waiting {
                match (&mut waits).now_or_never() {
                    Some(Ok(turn)) => held.push((caller, weight, turn)),
                    Some(Err(QueueFull)) => {}
                    None => left.push((caller, weight, waits)),
                }
            }
            waiting = left;
            let taken: usize = held.iter().map(|(_, weight, _)| weight).sum();
            assert_eq!((queue.taken(), queue.waiting()), (taken, waiting.len()));
            assert!(taken <= all || held.len() == 1, "{taken} of {all}");
            for name in names {
                let own = held.iter().filter(|(caller, ..)| *caller == name);
                let own: Vec<usize> = own.map(|(_, weight, _)| *weight).collect();
                let sum: usize = own.iter().sum();
                assert!(one == 0 || sum <= one || own.len() == 1, "{sum} of {one}");
            }
            assert!(waiting.is_empty() || taken > 0, "somebody waits for nobody");
        }
        drop(waiting);
        drop(held);
        assert!(queue.is_idle());
    }
}
