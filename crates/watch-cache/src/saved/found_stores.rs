//! The saved stores that a process found when it started. Each stays here until it
//! is in use or refused.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kubernetes_wire::api::GroupVersionResource;

/// After this time the process counts as ready, even if saved stores are still
/// waiting.
const READY_AFTER: Duration = Duration::from_secs(30);

/// How far a saved store has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// No reflector has begun.
    Found,
    /// A reflector reads it.
    Claimed,
}

pub(super) struct FoundStores {
    began: Instant,
    waiting: HashMap<GroupVersionResource, Step>,
    resumed: usize,
    refused: usize,
    oldest: Duration,
}

/// The outcome for all saved stores together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) resumed: usize,
    pub(super) refused: usize,
    /// The age of the oldest store that is in use.
    pub(super) oldest: Duration,
}

impl FoundStores {
    pub(super) fn new(found: Vec<GroupVersionResource>, now: Instant) -> Self {
        Self {
            began: now,
            waiting: found.into_iter().map(|gvr| (gvr, Step::Found)).collect(),
            resumed: 0,
            refused: 0,
            oldest: Duration::ZERO,
        }
    }

    pub(super) fn found(&self) -> Vec<GroupVersionResource> {
        self.waiting.keys().cloned().collect()
    }

    /// Claims a saved store for a reflector that begins. Returns false if there is
    /// none or it was claimed before: the resource is then listed.
    pub(super) fn claim(&mut self, gvr: &GroupVersionResource) -> bool {
        match self.waiting.get_mut(gvr) {
            Some(step @ Step::Found) => {
                *step = Step::Claimed;
                true
            }
            Some(Step::Claimed) | None => false,
        }
    }

    pub(super) fn is_waiting(&self, gvr: &GroupVersionResource) -> bool {
        self.waiting.contains_key(gvr)
    }

    /// Notes that a saved store of this age is in use. `None` means that it is not
    /// used. Returns the summary if it was the last.
    pub(super) fn settle(
        &mut self,
        gvr: &GroupVersionResource,
        age: Option<Duration>,
    ) -> Option<Summary> {
        self.waiting.remove(gvr)?;
        match age {
            Some(age) => {
                self.resumed = self.resumed.saturating_add(1);
                self.oldest = self.oldest.max(age);
            }
            None => self.refused = self.refused.saturating_add(1),
        }
        self.waiting.is_empty().then_some(Summary {
            resumed: self.resumed,
            refused: self.refused,
            oldest: self.oldest,
        })
    }

    pub(super) fn unready(&self, now: Instant) -> usize {
        match self.is_starting(now) {
            true => self.waiting.len(),
            false => 0,
        }
    }

    pub(super) fn is_starting(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) <= READY_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_is_claimed_and_settled_once() {
        let (now, age) = (Instant::now(), Duration::from_secs(9));
        let gvr = |name| GroupVersionResource::new("", "v1", name);
        let (pods, nodes) = (gvr("pods"), gvr("nodes"));
        let mut stores = FoundStores::new(vec![pods.clone(), nodes.clone()], now);
        assert!(!stores.claim(&gvr("secrets")));
        assert!(stores.claim(&pods));
        assert!(!stores.claim(&pods));
        assert_eq!(stores.unready(now), 2);
        assert_eq!(stores.settle(&pods, Some(age)), None);
        assert_eq!(stores.settle(&pods, None), None);
        assert!(!stores.claim(&pods));
        assert_eq!(stores.unready(now), 1);
        assert_eq!(stores.unready(now + READY_AFTER * 2), 0);
        let summary = Summary {
            resumed: 1,
            refused: 1,
            oldest: age,
        };
        assert_eq!(stores.settle(&nodes, None), Some(summary));
        assert_eq!(stores.unready(now), 0);
    }
}
