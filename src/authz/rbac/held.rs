//! The roles that one subject holds in one place.

use std::sync::Arc;

use super::rules::Rules;

/// The roles, each once and ordered by address, with the number of bindings that
/// give it. Copies share everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<[(Arc<Rules>, usize)]>);

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn roles(&self) -> impl Iterator<Item = &Arc<Rules>> {
        self.0.iter().map(|(rules, _)| rules)
    }

    /// Tells whether the roles are the same, however many bindings give them.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let mut both = self.roles().zip(other.roles());
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.len() == other.0.len() && both.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Adds a binding that gives the role.
    pub(super) fn add(&mut self, rules: &Arc<Rules>) {
        let mut roles = self.0.to_vec();
        match self.find(rules) {
            Ok(at) => {
                if let Some((_, bindings)) = roles.get_mut(at) {
                    *bindings = bindings.saturating_add(1);
                }
            }
            Err(at) => roles.insert(at, (rules.clone(), 1)),
        }
        self.0 = roles.into();
    }

    /// Removes a binding that gave the role.
    pub(super) fn remove(&mut self, rules: &Arc<Rules>) {
        let Ok(at) = self.find(rules) else {
            return;
        };
        let mut roles = self.0.to_vec();
        if let Some((_, bindings)) = roles.get_mut(at) {
            *bindings = bindings.saturating_sub(1);
        }
        roles.retain(|(_, bindings)| *bindings > 0);
        self.0 = roles.into();
    }

    fn find(&self, rules: &Arc<Rules>) -> Result<usize, usize> {
        let place = Arc::as_ptr(rules).addr();
        self.0
            .binary_search_by_key(&place, |(rules, _)| Arc::as_ptr(rules).addr())
    }
}
