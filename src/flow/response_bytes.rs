//! The bytes of answers that are held until clients have read them.
//!
//! An answer that is read at the wire's speed holds its bytes for milliseconds. An
//! answer that nobody reads holds them until apifront gives up. So these bytes are
//! limited for each user and for all users together. A request beyond a limit waits,
//! and may then be refused, before its answer is made.
//!
//! Only the bytes that an answer does not share with the store count: Tables,
//! PartialObjectMetadata, YAML, indented and compressed bodies. Other bodies are
//! references to stored objects. When an answer of references waits for its client,
//! it counts a fixed amount for buffers and its own memory. Objects to which only an
//! answer still refers are limited by time: see `server/listener/slow_client.rs`.

use std::time::Duration;

use super::Rejected;
use super::turns::{Turn, Turns};
use crate::metrics::PoolMetrics;

/// The limit for one user's answers: two Tables of 10,000 pods, of 52 MB each. A
/// larger answer counts as this much, so it is the user's only one.
pub(super) const USER_BYTES: usize = 128 << 20;

/// The limit for all users' answers. One user has at most a quarter of it. Processes
/// that serve lists of this size have gigabytes of memory.
const ALL_BYTES: usize = 512 << 20;

/// The bytes that count for an answer of references which waits for its client: the
/// chunk that is being written (`server/reply/body_chunks.rs` joins small chunks to
/// this size), the buffers of TLS and HTTP/2, and the task.
pub(super) const WAITING_ANSWER: usize = 256 << 10;

/// The most answers of one user that wait for room. Each holds its seats meanwhile.
const WAITING_OF_ONE: usize = 300;

pub struct ResponseBytes(Turns);

/// The counted bytes of one answer, which are given back when this is dropped.
#[derive(Debug, Default)]
pub struct HeldBytes(Option<Turn>);

impl HeldBytes {
    pub fn counts(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the true size once the answer was made.
    pub fn settle(&mut self, bytes: usize) {
        if let Some(held) = &mut self.0 {
            held.set_weight(bytes);
        }
    }
}

impl ResponseBytes {
    pub fn new(metrics: PoolMetrics) -> Self {
        Self(Turns::new(ALL_BYTES, USER_BYTES, WAITING_OF_ONE, metrics))
    }

    /// Waits for room for an answer of about this many bytes, for at most `wait`.
    /// Cancel-safe.
    pub(super) async fn hold(
        &self,
        user: &str,
        bytes: usize,
        wait: Duration,
    ) -> Result<HeldBytes, Rejected> {
        // A request for more than a user's limit would make all others wait.
        let bytes = bytes.min(USER_BYTES);
        let held = self.0.turn(user, bytes, wait).await?;
        Ok(HeldBytes(Some(held)))
    }

    /// Like [`ResponseBytes::hold`], but returns `None` instead of waiting.
    pub(super) fn try_hold(&self, user: &str, bytes: usize) -> Option<HeldBytes> {
        let held = self.0.try_turn(user, bytes)?;
        Some(HeldBytes(Some(held)))
    }

    pub(super) fn held(&self) -> usize {
        self.0.taken()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use prometheus::Registry;

    use super::*;
    use crate::metrics::FlowMetrics;

    const HOLD_TIMEOUT: Duration = Duration::from_secs(15);

    fn answers() -> ResponseBytes {
        let metrics = FlowMetrics::register(&Registry::new()).unwrap();
        ResponseBytes::new(metrics.pool("answer"))
    }

    #[tokio::test]
    async fn one_users_answers_leave_room_for_others() {
        let answers = answers();
        let hold = |user: &'static str, bytes| answers.hold(user, bytes, HOLD_TIMEOUT);
        let mut first = hold("a", USER_BYTES / 2).await.unwrap();
        // The answer is larger than estimated.
        first.settle(USER_BYTES * 2);
        let mut second = hold("a", 1).boxed();
        assert!((&mut second).now_or_never().is_none());
        assert!(answers.try_hold("a", 1).is_none());
        let _other = hold("b", USER_BYTES).now_or_never().unwrap().unwrap();
        first.settle(10);
        let second = (&mut second).now_or_never().unwrap().unwrap();
        assert_eq!(answers.held(), 10 + 1 + USER_BYTES);
        drop((first, second));
        assert_eq!(answers.held(), USER_BYTES);
        // Any answer can be made, however large it is.
        assert!(hold("a", usize::MAX).now_or_never().unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn all_answers_have_a_bound_and_an_end_of_waiting() {
        let answers = answers();
        let mut held = Vec::new();
        for user in ["a", "b", "c", "d"] {
            held.push(answers.hold(user, USER_BYTES, HOLD_TIMEOUT).await.unwrap());
        }
        let refused = answers.hold("e", 1, HOLD_TIMEOUT).await;
        assert_eq!(refused.unwrap_err(), Rejected::TimeOut);
        held.pop();
        assert!(
            answers
                .hold("e", 1, HOLD_TIMEOUT)
                .now_or_never()
                .unwrap()
                .is_ok()
        );
        held.clear();
        assert_eq!(answers.held(), 0);
    }
}
