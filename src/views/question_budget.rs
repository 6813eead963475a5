//! Limits the questions about new places that one namespace may cause for one user.
//! Otherwise anybody who may write RBAC there could cause questions all the time.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A user and a namespace.
type Key = (String, String);

#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) questions: u32,
    pub(super) within: Duration,
}

/// For each key, the moment at which its budget is full again.
#[derive(Default)]
pub(super) struct Budgets(Mutex<HashMap<Key, Instant>>);

impl Budgets {
    /// Takes one question about a place in this namespace. `Err` holds the moment
    /// from which there is a question left again.
    pub(super) fn take(
        &self,
        (user, namespace): (&str, &str),
        rate: Rate,
        now: Instant,
    ) -> Result<(), Instant> {
        let each = rate
            .within
            .checked_div(rate.questions)
            .unwrap_or(rate.within);
        let mut paid = self.0.lock();
        let at = paid
            .entry((user.to_owned(), namespace.to_owned()))
            .or_insert(now);
        let next = (*at).max(now).checked_add(each).unwrap_or(now);
        let ahead = next.saturating_duration_since(now);
        match ahead.checked_sub(rate.within) {
            None | Some(Duration::ZERO) => {
                *at = next;
                Ok(())
            }
            Some(too_much) => Err(now.checked_add(too_much).unwrap_or(now)),
        }
    }

    /// Forgets the keys whose budget is full.
    pub(super) fn forget_unused(&self, now: Instant) {
        self.0.lock().retain(|_, at| *at > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_namespace_leaves_the_questions_of_another() {
        let now = Instant::now();
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        let budgets = Budgets::default();
        let rate = Rate {
            questions: 10,
            within: Duration::from_secs(100),
        };
        let take = |user, namespace, now| budgets.take((user, namespace), rate, now);
        for _ in 0..10 {
            assert_eq!(take("ann", "a", at(0)), Ok(()));
        }
        assert_eq!(take("ann", "a", at(0)), Err(at(10)));
        assert_eq!(take("ann", "a", at(9)), Err(at(10)));
        for (user, namespace) in [("ann", "b"), ("bob", "a")] {
            assert_eq!(take(user, namespace, at(0)), Ok(()));
        }
        assert_eq!(take("ann", "a", at(10)), Ok(()));
        assert_eq!(take("ann", "a", at(10)), Err(at(20)));
        budgets.forget_unused(at(10));
        assert_eq!(budgets.0.lock().len(), 1);
        budgets.forget_unused(at(110));
        assert_eq!(budgets.0.lock().len(), 0);
    }
}
