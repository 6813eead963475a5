//! Many concurrent callers, who leave at random, while the configuration changes:
//! no request and no seat is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus::Registry;
use proptest::prelude::*;
use tokio::time::{sleep, timeout};

use super::support::{Lcg, busy, classify, info, user};
use crate::{Fairness, FairnessMetrics, Objects, Rejected, Settings, Width};

const TASKS: u64 = 12;
const REQUESTS: usize = 100;

#[derive(Default)]
struct Outcomes {
    executed: AtomicUsize,
    rejected: AtomicUsize,
    /// Requests whose callers left.
    left: AtomicUsize,
}

async fn caller(fairness: Arc<Fairness>, mut random: Lcg, outcomes: Arc<Outcomes>) {
    for _ in 0..REQUESTS {
        let name = format!("user-{}", random.below(5));
        let groups: &[&str] = match random.below(8) {
            0 => &["system:masters"],
            _ => &["system:authenticated"],
        };
        let class = classify(&fairness, info("GET", "/api/v1/pods"), &user(&name, groups));
        let latency = random.below(3).saturating_sub(1);
        let width = Width {
            initial_seats: 1 + random.below(3),
            final_seats: random.below(3),
            additional_latency: Duration::from_micros(latency * random.below(900)),
        };
        if random.below(4) == 0 {
            tokio::task::yield_now().await;
        }
        let micros = |random: &mut Lcg, most| Duration::from_micros(random.below(most));
        let wait = micros(&mut random, 4000);
        let patience = match random.below(3) {
            0 => micros(&mut random, 2000),
            _ => Duration::from_secs(60),
        };
        let outcome = match timeout(patience, fairness.admit(&class, width, wait)).await {
            Ok(Ok(seats)) => {
                match random.below(3) {
                    0 => sleep(micros(&mut random, 1500)).await,
                    _ => tokio::task::yield_now().await,
                }
                drop(seats);
                &outcomes.executed
            }
            Ok(Err(_)) => &outcomes.rejected,
            Err(_) => &outcomes.left,
        };
        outcome.fetch_add(1, Ordering::Relaxed);
    }
}

async fn changes(fairness: Arc<Fairness>, mut random: Lcg) {
    loop {
        match random.below(6) {
            0 => drop(fairness.configure(Objects::defaults())),
            1 => drop(fairness.configure(Objects::default())),
            2 => fairness.set_total_seats(random.below(12) as usize),
            3 => fairness.adjust(),
            n => {
                let queues = 1 << (n + random.below(4));
                drop(fairness.configure(busy(queues, 2, 3)));
            }
        }
        sleep(Duration::from_micros(random.below(3000))).await;
    }
}

/// Returns the sum of one column over all levels.
fn column(fairness: &Fairness, name: &str) -> usize {
    let dump = fairness.dump_priority_levels();
    let mut lines = dump.lines().map(|line| line.split(',').map(str::trim));
    let at = lines.next().unwrap().position(|word| word == name).unwrap();
    lines
        .map(|mut line| line.nth(at).unwrap().parse::<usize>().unwrap())
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_in_the_commotion() {
    for seed in 0..2 {
        let metrics = FairnessMetrics::register(&Registry::new()).unwrap();
        let fairness = Fairness::new(Settings { total_seats: 12 }, metrics);
        fairness.configure(busy(8, 2, 3));
        let keeper = tokio::spawn(fairness.clone().run());
        let changer = tokio::spawn(changes(fairness.clone(), Lcg(seed)));
        let outcomes = Arc::new(Outcomes::default());
        let callers: Vec<_> = (0..TASKS)
            .map(|n| {
                let random = Lcg(seed * 1000 + n);
                tokio::spawn(caller(fairness.clone(), random, outcomes.clone()))
            })
            .collect();
        for caller in callers {
            let ends = timeout(Duration::from_secs(120), caller).await;
            ends.expect("a request is lost").unwrap();
        }
        changer.abort();
        let _ = changer.await;
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        let (executed, rejected) = (count(&outcomes.executed), count(&outcomes.rejected));
        let left = count(&outcomes.left);
        assert_eq!(executed + rejected + left, TASKS as usize * REQUESTS);
        assert!(
            executed.min(rejected).min(left) > 0,
            "{executed} {rejected} {left}"
        );
        // Additional latencies end, and removed levels disappear.
        let settled = async {
            loop {
                let dump = fairness.dump_priority_levels();
                let quiescing = dump.lines().any(|line| line.contains("true,   true,"));
                let seats = |level: &Arc<crate::level::Level>| {
                    level.look(|set, _, _| {
                        set.check();
                        set.seats_in_use()
                    })
                };
                let levels = fairness.levels();
                if !quiescing && levels.iter().map(seats).sum::<usize>() == 0 {
                    return;
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(60), settled)
            .await
            .expect("a seat is lost");
        assert_eq!(column(&fairness, "ExecutingRequests"), 0);
        assert_eq!(column(&fairness, "WaitingRequests"), 0);
        keeper.abort();
    }
}

#[derive(Clone, Debug)]
enum Act {
    Ask { user: u8, seats: u8, latency_ms: u8 },
    Leave(u8),
    Configure { queues: u8, seats: u8 },
    Pass(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..5_u8, 1..5_u8, 0..3_u8)
            .prop_map(|(user, seats, latency_ms)| Act::Ask { user, seats, latency_ms }),
        4 => any::<u8>().prop_map(Act::Leave),
        1 => (0..9_u8, 0..12_u8).prop_map(|(queues, seats)| Act::Configure { queues, seats }),
        2 => (0..20_u8).prop_map(Act::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever callers and configurations do, the counts agree, and in the end all
    /// seats are free.
    #[test]
    fn the_books_are_right_after_every_step(acts in prop::collection::vec(act(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(follow(acts));
    }
}

type Asked = futures::future::BoxFuture<'static, Result<crate::Seats, Rejected>>;

async fn follow(acts: Vec<Act>) {
    use futures::FutureExt;
    let (fairness, clock, _registry) = super::support::engine(12);
    fairness.configure(busy(4, 2, 3));
    let mut waiting: Vec<Asked> = Vec::new();
    let mut executing = Vec::new();
    for act in acts {
        match act {
            Act::Ask {
                user: name,
                seats,
                latency_ms,
            } => {
                let fairness = fairness.clone();
                let width = Width {
                    initial_seats: u64::from(seats),
                    final_seats: u64::from(seats),
                    additional_latency: Duration::from_millis(u64::from(latency_ms)),
                };
                let user = user(&format!("user-{name}"), &["system:authenticated"]);
                let class = classify(&fairness, info("GET", "/api/v1/pods"), &user);
                let wait = Duration::from_secs(15);
                waiting.push(async move { fairness.admit(&class, width, wait).await }.boxed());
            }
            Act::Leave(which) => {
                let all = waiting.len() + executing.len();
                match usize::from(which) % all.max(1) {
                    _ if all == 0 => {}
                    at if at < waiting.len() => drop(waiting.remove(at)),
                    at => drop(executing.remove(at - waiting.len())),
                }
            }
            Act::Configure { queues, seats } => {
                fairness.set_total_seats(usize::from(seats));
                match queues {
                    0 => drop(fairness.configure(Objects::default())),
                    _ => drop(fairness.configure(busy(i32::from(queues) + 1, 2, 3))),
                }
            }
            Act::Pass(ms) => {
                clock.pass(Duration::from_millis(u64::from(ms)));
                fairness.end_latencies();
            }
        }
        waiting.retain_mut(|asked| match asked.now_or_never() {
            Some(Ok(seats)) => {
                executing.push(seats);
                false
            }
            Some(Err(_)) => false,
            None => true,
        });
        fairness.reap();
        let requests = waiting.len() + executing.len();
        let (waits, executes) = ("WaitingRequests", "ExecutingRequests");
        assert_eq!(
            column(&fairness, waits) + column(&fairness, executes),
            requests
        );
        for level in fairness.levels() {
            level.look(|set, _, _| set.check());
        }
    }
    drop((waiting, executing));
    clock.pass(Duration::from_secs(100));
    fairness.end_latencies();
    for level in fairness.levels() {
        assert_eq!(level.look(|set, _, _| set.seats_in_use()), 0);
    }
}
