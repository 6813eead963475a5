//! The number of executing requests of one kind, and its highest value in the last
//! second.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(super) struct Watermark {
    now: AtomicUsize,
    high: AtomicUsize,
}

/// A request that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Counted(Arc<Watermark>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watermark {
    pub(super) fn count(self: &Arc<Self>) -> Counted {
        let before = self.now.fetch_add(1, Ordering::Relaxed);
        self.note(before.saturating_add(1));
        Counted(self.clone())
    }

    /// Counts a request unless there are `limit` already. 0 means no limit.
    pub(super) fn count_within(self: &Arc<Self>, limit: usize) -> Option<Counted> {
        if limit == 0 {
            return Some(self.count());
        }
        let more = |now: usize| (now < limit).then_some(now.saturating_add(1));
        let before = self
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        self.note(before.saturating_add(1));
        Some(Counted(self.clone()))
    }

    /// Returns the highest number since the last call.
    pub(super) fn take_high(&self) -> usize {
        let now = self.now.load(Ordering::Relaxed);
        self.high.swap(now, Ordering::Relaxed).max(now)
    }

    fn note(&self, now: usize) {
        // Usually the mark is higher already. A load does not write.
        if self.high.load(Ordering::Relaxed) < now {
            self.high.fetch_max(now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_the_most_since_the_last_look() {
        let mark = Arc::new(Watermark::default());
        let one = mark.count();
        drop(mark.count());
        assert_eq!((mark.take_high(), mark.take_high()), (2, 1));
        drop(one);
        assert_eq!((mark.take_high(), mark.take_high()), (1, 0));
    }

    #[test]
    fn a_limit_holds_until_one_ends() {
        let mark = Arc::new(Watermark::default());
        let held = [mark.count_within(2), mark.count_within(2)];
        assert!(held.iter().all(Option::is_some));
        assert!(mark.count_within(2).is_none());
        assert!(mark.count_within(0).is_some());
        drop(held);
        assert!(mark.count_within(1).is_some());
    }
}
