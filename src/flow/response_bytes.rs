//! Bytes of answers, until their readers have them.
//!
//! An answer that is read at the wire's speed holds its bytes for milliseconds;
//! one that nobody reads holds them until it is given up. Each user has a bound
//! for them, and all users together: whoever asks for more waits, and is then
//! refused, before the answer is made.
//!
//! What counts is what an answer holds and the store does not: Tables,
//! PartialObjectMetadata, YAML, indented and compressed bodies. The others are
//! references to stored objects. An answer of those that has to wait for its
//! reader counts a fixed amount: what is on its way in buffers, and its own
//! memory. Objects that it alone still refers to are bounded by time: see
//! `server/listener/slow_client.rs`.

use std::sync::Arc;

use super::Rejected;
use super::pool::{Pool, QueuePolicy, Seat};
use super::user_pools::UserPools;
use crate::metrics::PoolMetrics;

/// One user's answers: two Tables of 10,000 pods, which are 52 MB each. A larger
/// one goes alone.
pub(super) const USER_BYTES: usize = 128 << 20;

/// The answers of all: no user has more than a quarter. A process that serves
/// lists of such a size has gigabytes.
const ALL_BYTES: usize = 512 << 20;

/// An answer of references that waits for its reader: the piece that is being
/// written (`server/answer/body_chunks.rs` joins small ones to as much), what TLS and HTTP/2
/// hold of it, and the task.
pub(super) const WAITING_ANSWER: usize = 256 << 10;

/// The bytes that answers hold.
pub struct ResponseBytes {
    users: UserPools,
    all: Arc<Pool>,
}

/// The bytes of one answer, given back when dropped.
#[derive(Debug, Default)]
pub struct Held(Option<(Seat, Seat)>);

impl Held {
    /// Whether there are bytes that count.
    pub fn counts(&self) -> bool {
        self.0.is_some()
    }

    /// The answer is made, and has so many bytes.
    pub fn settle(&mut self, bytes: usize) {
        if let Some((own, all)) = &mut self.0 {
            own.resize(bytes);
            all.resize(bytes);
        }
    }
}

impl ResponseBytes {
    pub fn new(metrics: PoolMetrics) -> Self {
        let users = UserPools::new(metrics.clone());
        users.set_limit(USER_BYTES);
        Self {
            users,
            all: Pool::new(ALL_BYTES, metrics),
        }
    }

    /// Room for an answer of about so many bytes. Cancel-safe.
    pub(super) async fn hold(
        &self,
        user: &str,
        bytes: usize,
        policy: QueuePolicy,
    ) -> Result<Held, Rejected> {
        // One that goes alone would keep all others waiting until it can.
        let bytes = bytes.min(USER_BYTES);
        let Some(own) = self.users.pool(user) else {
            return Ok(Held::default());
        };
        let own = own.seats(user, bytes, policy).await?;
        let all = self.all.seats(user, bytes, policy).await?;
        Ok(Held(Some((own, all))))
    }

    /// The same, if there is room at once.
    pub(super) fn try_hold(&self, user: &str, bytes: usize) -> Option<Held> {
        let own = self.users.pool(user)?.try_seats(bytes)?;
        let all = self.all.try_seats(bytes)?;
        Some(Held(Some((own, all))))
    }

    /// Forgets who has no answers; returns the bytes of all.
    pub(super) fn sweep(&self) -> usize {
        self.users.sweep()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use prometheus::Registry;

    use super::*;
    use crate::metrics::FlowMetrics;

    const PATIENT: QueuePolicy = QueuePolicy {
        queue_length: 100,
        wait: Duration::from_secs(15),
    };

    fn answers() -> ResponseBytes {
        let metrics = FlowMetrics::register(&Registry::new()).unwrap();
        ResponseBytes::new(metrics.pool("answer"))
    }

    #[tokio::test]
    async fn one_users_answers_leave_room_for_others() {
        let answers = answers();
        let hold = |user: &'static str, bytes| answers.hold(user, bytes, PATIENT);
        let mut first = hold("a", USER_BYTES / 2).await.unwrap();
        // It is larger than was thought.
        first.settle(USER_BYTES * 2);
        let mut second = hold("a", 1).boxed();
        assert!((&mut second).now_or_never().is_none());
        assert!(answers.try_hold("a", 1).is_none());
        let _other = hold("b", USER_BYTES).now_or_never().unwrap().unwrap();
        first.settle(10);
        let second = (&mut second).now_or_never().unwrap().unwrap();
        assert_eq!(answers.sweep(), 10 + 1 + USER_BYTES);
        drop((first, second));
        assert_eq!(answers.sweep(), USER_BYTES);
        // However large it is, it can be made.
        assert!(hold("a", usize::MAX).now_or_never().unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn all_answers_have_a_bound_and_an_end_of_waiting() {
        let answers = answers();
        let mut held = Vec::new();
        for user in ["a", "b", "c", "d"] {
            held.push(answers.hold(user, USER_BYTES, PATIENT).await.unwrap());
        }
        let refused = answers.hold("e", 1, PATIENT).await;
        assert_eq!(refused.unwrap_err(), Rejected::TimeOut);
        held.pop();
        assert!(
            answers
                .hold("e", 1, PATIENT)
                .now_or_never()
                .unwrap()
                .is_ok()
        );
        held.clear();
        assert_eq!(answers.sweep(), 0);
    }
}
