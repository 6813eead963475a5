//! The rules of one role.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kubernetes_wire::api::{Attributes, GroupVersionResource};
use parking_lot::Mutex;
use serde::Deserialize;

use super::rule::{Reach, Rule};

/// The most questions whose answers are kept. One role lets its holders list and
/// watch fewer resources.
const MAX_KEPT_ANSWERS: usize = 64;

/// The most names that are returned: more than any view may have.
const MAX_TOLD_NAMES: usize = 10_001;

/// The memory of a role without its rules.
const ROLE_BYTES: usize = 500;

#[derive(Debug, Default, Deserialize)]
#[serde(from = "Option<Vec<Rule>>")]
pub(super) struct Rules {
    rules: Box<[Rule]>,
    /// The most comparisons of texts that a decision takes.
    comparisons: usize,
    /// The objects that the rules allow to list or watch. They are computed once for
    /// all holders of the role, because a role may have ten thousand rules.
    reached: Mutex<HashMap<Question, Arc<Reached>>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Question {
    verb: String,
    group: String,
    resource: String,
}

/// The objects of a resource that a role allows to list or watch.
#[derive(Debug, PartialEq)]
pub(super) enum Reached {
    Nothing,
    All,
    /// Sorted and each once. There are at most [`MAX_TOLD_NAMES`], so some may be
    /// missing.
    Names(Box<[Arc<str>]>),
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl From<Option<Vec<Rule>>> for Rules {
    /// Go writes an empty list of rules as null.
    fn from(rules: Option<Vec<Rule>>) -> Self {
        let rules = rules.unwrap_or_default();
        let each = rules.iter().map(Rule::comparisons);
        Self {
            // A role without rules takes time, too.
            comparisons: each.fold(1, usize::saturating_add),
            rules: rules.into(),
            reached: Mutex::default(),
        }
    }
}

impl Rules {
    /// Returns the approximate memory, including the names kept for one question.
    pub(super) fn bytes(&self) -> usize {
        let rules = self.rules.iter().map(Rule::bytes);
        rules.fold(ROLE_BYTES, usize::saturating_add)
    }

    pub(super) fn comparisons(&self) -> usize {
        self.comparisons
    }

    pub(super) fn allow(&self, attributes: &Attributes) -> bool {
        self.rules.iter().any(|rule| rule.allows(attributes))
    }

    /// Returns the objects of a resource that the rules allow with a verb for
    /// collections.
    pub(super) fn reached(&self, verb: &str, gvr: &GroupVersionResource) -> Arc<Reached> {
        let question = Question {
            verb: verb.to_owned(),
            group: gvr.group.clone(),
            resource: gvr.resource.clone(),
        };
        let mut known = self.reached.lock();
        if let Some(reached) = known.get(&question) {
            return reached.clone();
        }
        if known.len() >= MAX_KEPT_ANSWERS {
            known.clear();
        }
        let reached = Arc::new(self.reach(verb, gvr));
        known.insert(question, reached.clone());
        reached
    }

    fn reach(&self, verb: &str, gvr: &GroupVersionResource) -> Reached {
        let mut all: BTreeSet<&Arc<str>> = BTreeSet::new();
        for rule in &self.rules {
            match rule.reach(verb, gvr) {
                Reach::All => return Reached::All,
                Reach::Names(names) => {
                    let left = MAX_TOLD_NAMES.saturating_sub(all.len());
                    all.extend(names.iter().take(left));
                }
                Reach::Nothing => {}
            }
        }
        match all.is_empty() {
            true => Reached::Nothing,
            false => Reached::Names(all.into_iter().cloned().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_rules_are_as_one() {
        let rule = |resource: &str, names: &[&str]| json!({"verbs": ["list"], "apiGroups": [""], "resources": [resource], "resourceNames": names});
        let named = |names: &[&str]| Reached::Names(names.iter().map(|n| (*n).into()).collect());
        let pods = GroupVersionResource::new("", "v1", "pods");
        for (rules, expected) in [
            (json!(null), Reached::Nothing),
            (json!([rule("nodes", &[])]), Reached::Nothing),
            (
                json!([rule("pods", &["b", "a"]), rule("*", &["c", "a"])]),
                named(&["a", "b", "c"]),
            ),
            (
                json!([rule("pods", &["b"]), rule("pods", &[])]),
                Reached::All,
            ),
        ] {
            let rules: Rules = serde_json::from_value(rules).unwrap();
            for _ in 0..2 {
                assert_eq!(*rules.reached("list", &pods), expected);
            }
            assert_eq!(*rules.reached("watch", &pods), Reached::Nothing);
        }
        let names: Vec<String> = (0..MAX_TOLD_NAMES + 5).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let rules = json!([
            rule("pods", &names[..MAX_TOLD_NAMES]),
            rule("pods", &names[MAX_TOLD_NAMES..])
        ]);
        let rules: Rules = serde_json::from_value(rules).unwrap();
        let Reached::Names(told) = &*rules.reached("list", &pods) else {
            panic!("names");
        };
        assert_eq!(told.len(), MAX_TOLD_NAMES);
        // Questions about many resources keep no more answers.
        for n in 0..1_000 {
            let gvr = GroupVersionResource::new("", "v1", format!("r{n}").as_str());
            rules.reached("list", &gvr);
        }
        assert!(rules.reached.lock().len() <= MAX_KEPT_ANSWERS);
    }
}
