//! A cache of review answers, each with the caller that it is about.
//!
//! The cache has a limit of bytes, and callers choose the questions. When the cache is
//! full, the caller whose answers take the most loses those that it has not used for
//! the longest time, so a flood of questions drives out only its own caller's answers.
//! The reader of an answer decides how old it may be.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apifront_shares::{Ledger, Limits};
use parking_lot::RwLock;
use tokio::time::Instant;

/// A digest. It gives entries a fixed size, whatever a caller sends.
pub type Key = [u8; 32];

/// When the cache is full, one part in this many of its capacity is removed at
/// once. Removing many at once keeps the search for them cheap per new answer.
const GIVEN_UP: usize = 64;

/// The approximate memory of an answer without what its value and its caller hold: the
/// key in both maps, the time of its last use, and free places of the maps.
const ENTRY_BYTES: usize = 256;

/// The time between two removals of answers that are too old.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// What takes memory while it is remembered.
pub trait Held {
    /// Returns the approximate number of bytes, with those behind pointers.
    fn held_bytes(&self) -> usize;
}

impl Held for Arc<str> {
    fn held_bytes(&self) -> usize {
        self.len()
    }
}

impl<T: Held> Held for Arc<T> {
    fn held_bytes(&self) -> usize {
        T::held_bytes(self)
    }
}

pub struct AnswerCache<C: Eq + Hash, V> {
    state: RwLock<State<C, V>>,
    capacity_bytes: usize,
    began: Instant,
}

struct State<C: Eq + Hash, V> {
    answers: HashMap<Key, Answer<C, V>>,
    keys: HashMap<C, HashSet<Key>>,
    /// The bytes of each caller's answers.
    bytes: Ledger<C>,
    swept: Instant,
    /// Answers to questions from before this moment are not added.
    cleared: Instant,
}

struct Answer<C, V> {
    caller: C,
    value: V,
    bytes: usize,
    asked: Instant,
    /// The time of the last use, in milliseconds after `began`.
    used: AtomicU64,
}

impl<C: Clone + Eq + Hash + Held, V: Clone + Held> AnswerCache<C, V> {
    pub fn new(capacity_bytes: usize, now: Instant) -> Self {
        Self {
            state: RwLock::new(State {
                answers: HashMap::new(),
                keys: HashMap::new(),
                bytes: Ledger::new(Limits::fixed(0, 0)),
                swept: now,
                cleared: now,
            }),
            capacity_bytes,
            began: now,
        }
    }

    /// Returns the answer, and the time at which it was requested.
    pub fn get(&self, key: &Key, now: Instant) -> Option<(V, Instant)> {
        let state = self.state.read();
        let answer = state.answers.get(key)?;
        answer.used.store(self.millis(now), Ordering::Relaxed);
        Some((answer.value.clone(), answer.asked))
    }

    /// Keeps an answer about `caller` that was requested at `asked`, unless it is larger
    /// than the whole cache. Answers older than `longest` may be removed: nobody uses
    /// them.
    pub fn insert(&self, key: Key, caller: C, value: V, asked: Instant, longest: Duration) {
        let mut state = self.state.write();
        if asked < state.cleared {
            return;
        }
        state.remove(&key);
        if asked.saturating_duration_since(state.swept) >= SWEEP_EVERY {
            state.sweep(asked, longest);
        }
        let bytes = entry_bytes(&caller, &value);
        if bytes > self.capacity_bytes {
            return;
        }
        let is_full =
            |state: &State<C, V>| state.bytes.total().saturating_add(bytes) > self.capacity_bytes;
        if is_full(&state) {
            state.sweep(asked, longest);
        }
        while is_full(&state) {
            if !state.give_up(self.capacity_bytes / GIVEN_UP) {
                return;
            }
        }
        state.keys.entry(caller.clone()).or_default().insert(key);
        state.bytes.add(Some(&caller), bytes);
        let answer = Answer {
            caller,
            value,
            bytes,
            asked,
            used: AtomicU64::new(self.millis(asked)),
        };
        state.answers.insert(key, answer);
    }

    pub fn remove(&self, key: &Key) {
        self.state.write().remove(key);
    }

    /// Returns up to `most` wanted answers that were requested before `before` and
    /// used after `used_after`, the oldest first.
    pub fn older_than(
        &self,
        before: Instant,
        used_after: Option<Instant>,
        most: usize,
        wanted: impl Fn(&V) -> bool,
    ) -> Vec<(Key, C, V)> {
        let used_after = used_after.map_or(0, |at| self.millis(at));
        let state = self.state.read();
        let mut old: Vec<_> = state
            .answers
            .iter()
            .filter(|(_, answer)| answer.asked < before && wanted(&answer.value))
            .filter(|(_, answer)| answer.used.load(Ordering::Relaxed) >= used_after)
            .collect();
        old.sort_unstable_by_key(|(_, answer)| answer.asked);
        let one = |(key, answer): (&Key, &Answer<C, V>)| {
            (*key, answer.caller.clone(), answer.value.clone())
        };
        old.into_iter().take(most).map(one).collect()
    }

    /// Replaces an answer by a newer one. This does not count as a use of it. Does
    /// nothing if the answer is gone.
    pub fn renew(&self, key: &Key, value: V, asked: Instant) {
        let state = &mut *self.state.write();
        if asked >= state.cleared
            && let Some(answer) = state.answers.get_mut(key)
            && asked > answer.asked
        {
            let bytes = entry_bytes(&answer.caller, &value);
            state.bytes.take_off(Some(&answer.caller), answer.bytes);
            state.bytes.add(Some(&answer.caller), bytes);
            answer.value = value;
            answer.bytes = bytes;
            answer.asked = asked;
        }
    }

    /// Forgets all answers, including those still to come.
    pub fn clear(&self, now: Instant) {
        let mut state = self.state.write();
        state.answers.clear();
        state.keys.clear();
        state.bytes.clear();
        state.cleared = now;
    }

    fn millis(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.began);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

fn entry_bytes(caller: &impl Held, value: &impl Held) -> usize {
    ENTRY_BYTES
        .saturating_add(caller.held_bytes())
        .saturating_add(value.held_bytes())
}

impl<C: Clone + Eq + Hash, V> State<C, V> {
    fn remove(&mut self, key: &Key) {
        let Some(answer) = self.answers.remove(key) else {
            return;
        };
        self.bytes.take_off(Some(&answer.caller), answer.bytes);
        if let Some(keys) = self.keys.get_mut(&answer.caller) {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(&answer.caller);
            }
        }
    }

    fn sweep(&mut self, now: Instant, longest: Duration) {
        let is_old = |asked: Instant| now.saturating_duration_since(asked) > longest;
        let old: Vec<Key> = self
            .answers
            .iter()
            .filter(|(_, answer)| is_old(answer.asked))
            .map(|(key, _)| *key)
            .collect();
        for key in &old {
            self.remove(key);
        }
        self.swept = now;
    }

    /// Removes answers of the caller whose answers take the most: `enough` bytes of
    /// them, but at most half of the answers. Returns false if there was nothing to
    /// remove.
    fn give_up(&mut self, enough: usize) -> bool {
        let most_of_one = self.bytes.most();
        let Some(keys) = most_of_one.and_then(|(caller, _)| self.keys.get(caller)) else {
            return false;
        };
        let used = |key: &Key| {
            let answer = self.answers.get(key);
            answer.map_or(0, |answer| answer.used.load(Ordering::Relaxed))
        };
        let mut by_use: Vec<(u64, Key)> = keys.iter().map(|key| (used(key), *key)).collect();
        by_use.sort_unstable();
        let half = by_use.len().div_ceil(2);
        let left = self.bytes.total().saturating_sub(enough);
        for (_, key) in by_use.iter().take(half) {
            self.remove(key);
            if self.bytes.total() <= left {
                break;
            }
        }
        half > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_TTL: Duration = Duration::from_secs(3600);

    impl Held for &'static str {
        fn held_bytes(&self) -> usize {
            0
        }
    }

    /// The size of an answer is its number, above 1,000.
    impl Held for usize {
        fn held_bytes(&self) -> usize {
            self.saturating_sub(1000)
        }
    }

    fn key(caller: u8, n: usize) -> Key {
        let mut key = [caller; 32];
        key[..8].copy_from_slice(&n.to_be_bytes());
        key
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_drives_out_its_own_answers_alone() {
        let now = Instant::now();
        let memory = AnswerCache::new(100 * ENTRY_BYTES, now);
        for n in 0..10 {
            memory.insert(key(b'j', n), "jane", n, now, LONG_TTL);
        }
        for n in 0..1_000 {
            memory.insert(key(b'f', n), "flood", n, now, LONG_TTL);
            assert!(memory.state.read().answers.len() <= 100);
        }
        assert!((0..10).all(|n| memory.get(&key(b'j', n), now) == Some((n, now))));
        assert!(memory.get(&key(b'f', 999), now).is_some(), "the newest");
        assert!(memory.get(&key(b'f', 0), now).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn large_answers_drive_out_their_own_callers_alone() {
        let now = Instant::now();
        let capacity = 100 * ENTRY_BYTES;
        let memory = AnswerCache::new(capacity, now);
        let held = || memory.state.read().bytes.total();
        for n in 0..10 {
            memory.insert(key(b'j', n), "jane", n, now, LONG_TTL);
        }
        let large = 1000 + 9 * ENTRY_BYTES;
        for n in 0..1000 {
            memory.insert(key(b'f', n), "flood", large, now, LONG_TTL);
            assert!(held() <= capacity);
        }
        assert!((0..10).all(|n| memory.get(&key(b'j', n), now) == Some((n, now))));
        memory.insert(key(b'j', 0), "jane", 1000 + capacity, now, LONG_TTL);
        assert_eq!(
            memory.get(&key(b'j', 0), now),
            None,
            "larger than the cache"
        );
        let before = held();
        memory.renew(&key(b'j', 1), large, now + Duration::from_secs(1));
        assert_eq!(held(), before + 9 * ENTRY_BYTES);
        (1..10).for_each(|n| memory.remove(&key(b'j', n)));
        memory.clear(now);
        assert_eq!(held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_renewed_without_being_used() {
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let memory = AnswerCache::new(10 * ENTRY_BYTES, began);
        for n in 0..4 {
            memory.insert(key(0, n), "jane", n, Instant::now(), LONG_TTL);
            tokio::time::advance(second).await;
        }
        memory.get(&key(0, 2), Instant::now());
        let old = |used_after, most| {
            let old = memory.older_than(began + 3 * second, used_after, most, |n| *n < 9);
            old.iter().map(|(_, _, n)| *n).collect::<Vec<_>>()
        };
        assert_eq!(old(None, 9), [0, 1, 2]);
        assert_eq!(old(None, 2), [0, 1]);
        assert_eq!(old(Some(began + second), 9), [1, 2]);
        memory.renew(&key(0, 1), 10, Instant::now());
        memory.renew(&key(0, 0), 10, began);
        memory.renew(&key(0, 9), 10, Instant::now());
        assert_eq!(old(None, 9), [0, 2]);
        let now = Instant::now();
        assert_eq!(memory.get(&key(0, 1), now), Some((10, now)));
        assert_eq!(memory.get(&key(0, 9), now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_recently_used_go_first_and_the_old_before_them() {
        let memory = AnswerCache::new(4 * ENTRY_BYTES, Instant::now());
        for n in 0..4 {
            memory.insert(key(0, n), "jane", n, Instant::now(), LONG_TTL);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        memory.get(&key(0, 0), Instant::now());
        memory.insert(key(0, 4), "jane", 4, Instant::now(), LONG_TTL);
        let there = || {
            let found = (0..6).filter(|n| memory.get(&key(0, *n), Instant::now()).is_some());
            found.collect::<Vec<_>>()
        };
        assert_eq!(there(), [0, 2, 3, 4]);
        // With a limit of one second, the answers 0 and 2 are too old.
        memory.insert(key(0, 5), "jane", 5, Instant::now(), Duration::from_secs(1));
        assert_eq!(there(), [3, 4, 5]);
        memory.remove(&key(0, 5));
        tokio::time::advance(SWEEP_EVERY).await;
        memory.insert(key(0, 0), "joe", 0, Instant::now(), Duration::from_secs(1));
        assert_eq!(there(), [0]);
        assert_eq!(memory.state.read().bytes.callers(), 1);
        let before = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        memory.clear(Instant::now());
        assert!(there().is_empty());
        memory.insert(key(0, 1), "joe", 1, before, LONG_TTL);
        assert!(there().is_empty());
        memory.insert(key(0, 2), "joe", 2, Instant::now(), LONG_TTL);
        assert_eq!(there(), [2]);
    }
}
