//! Remembers for a short time the questions that came up without a review.
//! `server/answer/cached/mod.rs` forwards them.
//!
//! If upstream must be asked for an answer anyway, it can judge and answer the whole
//! request: one request instead of two. A review, whose answer is then used for a
//! while, pays off only for a caller who asks again.

use std::time::Duration;

use apifront_upstream::review::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The number of questions that are remembered. A forgotten question counts as the
/// first again, which costs no more than before.
const MAX_QUESTIONS: usize = 8192;

/// The last question of each slot. The slot is part of the question's digest, so
/// that no caller can choose which question they displace.
pub(super) struct FirstReads(Mutex<Vec<Option<(u64, Instant)>>>);

impl Default for FirstReads {
    fn default() -> Self {
        Self(Mutex::new(vec![None; MAX_QUESTIONS]))
    }
}

impl FirstReads {
    /// Tells whether the question has not come up within this time. Remembers it.
    pub(super) fn is_first(&self, key: &Key, within: Duration, now: Instant) -> bool {
        let [a, b, c, d, e, f, g, h, ..] = *key;
        let digest = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let mut slots = self.0.lock();
        let slot = slots.get_mut(digest as usize % MAX_QUESTIONS);
        let Some(slot) = slot else { return true };
        let before = slot.replace((digest, now));
        !before.is_some_and(|(of, at)| of == digest && now.saturating_duration_since(at) < within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_within_the_time_is_not_the_first() {
        let reads = FirstReads::default();
        let within = Duration::from_secs(10);
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let of = |first: u8, eighth: u8| {
            let mut key = Key::default();
            (key[0], key[7]) = (first, eighth);
            key
        };
        assert!(reads.is_first(&of(0, 1), within, at(0)));
        assert!(!reads.is_first(&of(0, 1), within, at(9)));
        assert!(!reads.is_first(&of(0, 1), within, at(18)));
        assert!(reads.is_first(&of(0, 1), within, at(28)), "too late");
        assert!(
            reads.is_first(&of(0, 2), within, at(28)),
            "in a slot of its own"
        );
        assert!(!reads.is_first(&of(0, 1), within, at(29)));
        assert!(
            reads.is_first(&of(1, 1), within, at(29)),
            "in the same slot"
        );
        assert!(
            reads.is_first(&of(0, 1), within, at(30)),
            "it was displaced"
        );
        assert!(reads.is_first(&of(0, 1), Duration::ZERO, at(30)));
    }
}
