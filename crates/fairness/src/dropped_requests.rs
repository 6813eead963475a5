//! kube-apiserver's `Retry-After`: it doubles while a level refuses many requests,
//! and falls by a second at a time (k8s.io/apiserver
//! `util/flowcontrol/dropped_requests_tracker.go`).

use std::collections::VecDeque;

/// The shortest and the longest time that a client is told to wait, in seconds.
/// kube-apiserver dictates both.
pub(crate) const MIN_RETRY_AFTER_SECONDS: u64 = 1;
pub(crate) const MAX_RETRY_AFTER_SECONDS: u64 = 32;
/// `Retry-After` doubles if the last interval had this many refusals per second.
const MANY_DROPPED_PER_SECOND: u64 = 3;

#[derive(Debug)]
pub(crate) struct DroppedRequests {
    /// Past seconds with the number of their refusals, oldest first. There is at
    /// most one entry for each of the last `MAX_RETRY_AFTER_SECONDS` seconds.
    history: VecDeque<(u64, u64)>,
    second: u64,
    count: u64,
    retry_after: u64,
    raised_at: u64,
}

impl Default for DroppedRequests {
    fn default() -> Self {
        Self {
            history: VecDeque::new(),
            second: 0,
            count: 0,
            retry_after: MIN_RETRY_AFTER_SECONDS,
            raised_at: 0,
        }
    }
}

impl DroppedRequests {
    pub(crate) fn retry_after(&self) -> u64 {
        self.retry_after
    }

    /// Counts a refusal in a second since 1970.
    pub(crate) fn record(&mut self, second: u64) {
        // If the clock went back, the refusal counts in the last second that was
        // reached.
        let second = second.max(self.second);
        if second == self.second {
            self.count = self.count.saturating_add(1);
            return;
        }
        self.history.push_back((self.second, self.count));
        let kept = self
            .retry_after
            .saturating_mul(2)
            .min(MAX_RETRY_AFTER_SECONDS);
        let reached = self.second;
        while self
            .history
            .front()
            .is_some_and(|(past, _)| reached.saturating_sub(*past) > kept)
        {
            self.history.pop_front();
        }
        self.second = second;
        self.count = 1;
        self.adjust();
    }

    /// Raises or lowers `retry_after` by the refusals of the last `retry_after`
    /// seconds.
    fn adjust(&mut self) {
        let interval = self.retry_after;
        let dropped: u64 = self
            .history
            .iter()
            .filter(|(past, _)| self.second.saturating_sub(*past) <= interval)
            .fold(0, |sum, (_, count)| sum.saturating_add(*count));
        let since_raised = self.second.saturating_sub(self.raised_at);
        if since_raised >= interval && dropped >= interval.saturating_mul(MANY_DROPPED_PER_SECOND) {
            self.retry_after = interval.saturating_mul(2).min(MAX_RETRY_AFTER_SECONDS);
            self.raised_at = self.second;
        } else if dropped < interval && interval > MIN_RETRY_AFTER_SECONDS {
            self.retry_after = interval.saturating_sub(1);
        }
    }
}
