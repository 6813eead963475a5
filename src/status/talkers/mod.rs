//! The top talkers: the users and the user agents that cause the most work.
//!
//! ```text
//! request ─▶ pending, one per thread ─▶ rankings: users      ┐ by each
//!            (exact, some names)                  user agents ┘ measure
//! ```
//!
//! The rankings cover the last half hour to hour: after half an hour they begin
//! anew, and the ones before are kept for another half hour.
//!
//! Names are never labels of metrics, because callers choose them. Here memory is
//! limited whatever they choose: rankings list a fixed number of names, and names
//! are cut to [`MAX_NAME_BYTES`].

mod pending;
mod ranking;
mod top;

pub use ranking::MAX_ENTRIES;
pub use top::Top;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use pending::{Pending, Slot};
use ranking::{Addition, Ranking};

/// The most bytes of a name. Names with the same first bytes count as one.
pub const MAX_NAME_BYTES: usize = 128;

/// The most threads with their own sums. Together they take 430 KB.
const MAX_SHARDS: usize = 16;

/// The time after which rankings begin anew.
const RANKING_PERIOD: Duration = Duration::from_secs(30 * 60);

/// A quantity that is summed for each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Requests,
    /// The bytes of the answers' bodies.
    BytesSent,
    WatchesOpened,
    /// Requests that the cache answered, watches included.
    AnswersFromCache,
    /// The bytes of these answers.
    BytesFromCache,
}

impl Measure {
    pub const ALL: [Self; 5] = [
        Self::Requests,
        Self::BytesSent,
        Self::WatchesOpened,
        Self::AnswersFromCache,
        Self::BytesFromCache,
    ];
}

#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The user as whom the request is made. Empty if there is none.
    pub user: &'a str,
    pub agent: &'a str,
    /// The authenticated user. Empty if there is none. The names that a caller
    /// brings take this user's share of the rankings.
    pub authenticated: &'a str,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts([u64; Measure::ALL.len()]);

impl Amounts {
    /// Returns the amounts of a finished answer.
    pub fn of_answer(bytes: u64, from_cache: bool) -> Self {
        let (answers, cached) = if from_cache { (1, bytes) } else { (0, 0) };
        Self([1, bytes, 0, answers, cached])
    }

    pub fn of_opened_watch() -> Self {
        Self([0, 0, 1, 0, 0])
    }

    fn is_none(&self) -> bool {
        self.0 == [0; Measure::ALL.len()]
    }

    fn add(&mut self, more: &Self) {
        for (sum, amount) in self.0.iter_mut().zip(more.0) {
            *sum = sum.saturating_add(amount);
        }
    }
}

/// Two rankings for each measure, in the order of [`Measure::ALL`].
#[derive(Default)]
pub struct Rankings {
    recent: [Ranking; Measure::ALL.len()],
    before: [Ranking; Measure::ALL.len()],
    /// The sums of forgotten rankings.
    forgotten: Amounts,
}

impl Rankings {
    pub fn by_measure(&self) -> impl Iterator<Item = (Measure, Top<'_>)> {
        let both = self.recent.iter().zip(&self.before);
        let tops = both.map(|(recent, before)| Top::from_rankings(recent, before));
        Measure::ALL.into_iter().zip(tops)
    }

    pub fn since_start(&self, measure: Measure) -> u64 {
        let listed = self.recent.iter().zip(&self.before);
        let mut all = Measure::ALL.iter().zip(self.forgotten.0).zip(listed);
        let found = all.find(|((of, _), _)| **of == measure);
        found.map_or(0, |((_, forgotten), (recent, before))| {
            let listed = recent.total().saturating_add(before.total());
            listed.saturating_add(forgotten)
        })
    }

    fn begin_anew(&mut self) {
        for (sum, ranking) in self.forgotten.0.iter_mut().zip(&self.before) {
            *sum = sum.saturating_add(ranking.total());
        }
        self.before = std::mem::take(&mut self.recent);
    }

    fn take(&mut self, slot: &Slot) {
        for (ranking, amount) in self.recent.iter_mut().zip(slot.amounts.0) {
            if amount > 0 {
                ranking.add(Addition {
                    hash: slot.hash,
                    owner: slot.owner,
                    name: &slot.name,
                    amount,
                });
            }
        }
    }
}

#[derive(Default)]
struct Dimensions<T> {
    users: T,
    agents: T,
}

#[derive(Clone, Copy)]
struct Began {
    recent: Instant,
    before: Instant,
}

pub struct Talkers {
    /// The hash is random, so that callers cannot choose names that share a slot.
    hasher: RandomState,
    shards: Box<[Mutex<Dimensions<Pending>>]>,
    /// Locked after a shard, never before.
    rankings: Dimensions<Mutex<Rankings>>,
    began: Mutex<Began>,
}

impl Talkers {
    pub fn new(now: Instant) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = (0..threads.min(MAX_SHARDS)).map(|_| Mutex::default());
        Self {
            hasher: RandomState::new(),
            shards: shards.collect(),
            rankings: Dimensions::default(),
            began: Mutex::new(Began {
                recent: now,
                before: now,
            }),
        }
    }

    pub fn count(&self, caller: Caller<'_>, amounts: &Amounts) {
        let (user, agent) = (cut(caller.user), cut(caller.agent));
        let of_user = self.hasher.hash_one(user);
        let of_agent = self.hasher.hash_one(agent);
        let owner = match caller.authenticated == caller.user {
            true => of_user,
            false => self.hasher.hash_one(cut(caller.authenticated)),
        };
        let shard = thread_number().checked_rem(self.shards.len());
        let Some(shard) = shard.and_then(|at| self.shards.get(at)) else {
            return;
        };
        let rankings = &self.rankings;
        let mut shard = shard.lock();
        shard.users.add(of_user, owner, user, amounts, |slot| {
            rankings.users.lock().take(slot);
        });
        shard.agents.add(of_agent, owner, agent, amounts, |slot| {
            rankings.agents.lock().take(slot);
        });
    }

    /// Begins the rankings anew when it is time. Must be called regularly.
    pub fn keep_recent(&self, now: Instant) {
        let mut began = self.began.lock();
        if now.saturating_duration_since(began.recent) < RANKING_PERIOD {
            return;
        }
        *began = Began {
            before: began.recent,
            recent: now,
        };
        // Pending sums belong to the time that ends.
        self.users(|_| ());
        self.agents(|_| ());
        self.rankings.users.lock().begin_anew();
        self.rankings.agents.lock().begin_anew();
    }

    /// Returns the time that the rankings cover.
    pub fn span(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began.lock().before)
    }

    pub fn users<T>(&self, show: impl FnOnce(&Rankings) -> T) -> T {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let mut rankings = self.rankings.users.lock();
            shard.users.drain(|slot| rankings.take(slot));
        }
        show(&self.rankings.users.lock())
    }

    pub fn agents<T>(&self, show: impl FnOnce(&Rankings) -> T) -> T {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let mut rankings = self.rankings.agents.lock();
            shard.agents.drain(|slot| rankings.take(slot));
        }
        show(&self.rankings.agents.lock())
    }
}

/// Cuts a name to [`MAX_NAME_BYTES`].
pub fn cut(name: &str) -> &str {
    let end = name.floor_char_boundary(MAX_NAME_BYTES);
    name.get(..end).unwrap_or_default()
}

/// Returns a number that few other threads have.
fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn caller<'a>(user: &'a str, agent: &'a str) -> Caller<'a> {
        Caller {
            user,
            agent,
            authenticated: user,
        }
    }

    fn listed(rankings: &Rankings, measure: Measure) -> Vec<(String, u64)> {
        let (_, top) = rankings.by_measure().find(|(m, _)| *m == measure).unwrap();
        let entries = top.entries.into_iter();
        entries.map(|e| (e.name.to_owned(), e.count)).collect()
    }

    #[test]
    fn each_measure_has_its_own_order() {
        let talkers = Talkers::new(Instant::now());
        talkers.count(
            caller("lister", "kubectl"),
            &Amounts::of_answer(9_000, true),
        );
        for _ in 0..3 {
            talkers.count(caller("getter", "curl"), &Amounts::of_answer(10, false));
        }
        talkers.count(caller("getter", "kubectl"), &Amounts::of_opened_watch());
        let users = |measure| talkers.users(|r| listed(r, measure));
        let pair = |name: &str, count| (name.to_owned(), count);
        assert_eq!(
            users(Measure::Requests),
            [pair("getter", 3), pair("lister", 1)]
        );
        assert_eq!(
            users(Measure::BytesSent),
            [pair("lister", 9_000), pair("getter", 30)]
        );
        assert_eq!(users(Measure::WatchesOpened), [pair("getter", 1)]);
        assert_eq!(users(Measure::AnswersFromCache), [pair("lister", 1)]);
        assert_eq!(users(Measure::BytesFromCache), [pair("lister", 9_000)]);
        let agents = talkers.agents(|r| listed(r, Measure::Requests));
        assert_eq!(agents, [pair("curl", 3), pair("kubectl", 1)]);
    }

    #[test]
    fn talkers_of_long_ago_are_forgotten() {
        let start = Instant::now();
        let talkers = Talkers::new(start);
        let count = |name| talkers.count(caller(name, ""), &Amounts::of_answer(1, false));
        let users = || -> Vec<String> {
            let listed = talkers.users(|r| listed(r, Measure::Requests));
            listed.into_iter().map(|(name, _)| name).collect()
        };
        count("early");
        for (minutes, span, expected) in [
            (29, 29, &["early"][..]),
            (30, 30, &["early"]),
            (59, 59, &["early"]),
            (60, 30, &["late"]),
            (89, 59, &["late"]),
            (90, 30, &[]),
        ] {
            let now = start + Duration::from_secs(60 * minutes);
            talkers.keep_recent(now);
            assert_eq!(users(), expected, "{minutes}");
            assert_eq!(talkers.span(now), Duration::from_secs(60 * span));
            if minutes == 59 {
                count("late");
            }
        }
        // The sums are not forgotten.
        let requests = talkers.users(|r| r.since_start(Measure::Requests));
        assert_eq!(requests, 2);
    }

    #[test]
    fn names_are_cut_between_characters() {
        let talkers = Talkers::new(Instant::now());
        let long = "\u{20ac}".repeat(1_000);
        talkers.count(caller("", &long), &Amounts::of_answer(1, false));
        let agents = talkers.agents(|r| listed(r, Measure::Requests));
        assert_eq!(agents[0].0.len(), MAX_NAME_BYTES - MAX_NAME_BYTES % 3);
        assert_eq!(talkers.users(|r| listed(r, Measure::Requests))[0].0, "");
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let talkers = Arc::new(Talkers::new(Instant::now()));
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let talkers = talkers.clone();
                std::thread::spawn(move || {
                    for n in 0..10_000 {
                        let agent = format!("agent-{}", (n * 7 + thread) % 300);
                        talkers.count(caller("user", &agent), &Amounts::of_answer(2, true));
                        if n % 1_000 == 0 {
                            talkers.agents(|_| ());
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let totals = |rankings: &Rankings| -> Vec<u64> {
            rankings.by_measure().map(|(_, top)| top.total).collect()
        };
        let expected = [80_000, 160_000, 0, 80_000, 160_000];
        assert_eq!(talkers.users(totals), expected);
        assert_eq!(talkers.agents(totals), expected);
    }
}
