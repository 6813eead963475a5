//! A label selector whose cost per object does not depend on its length.
//!
//! A URL has room for 13,000 requirements. Checking them one by one on 10,000
//! objects takes ten seconds of a thread. If they are grouped by key
//! beforehand, each of the object's few labels needs one lookup.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Labels;
use super::label_selector::{LabelRequirement, LabelSelector, Operator};

/// The most requirements that are checked one by one. For so few, that is
/// faster than a lookup for each of the object's labels.
const MAX_CHECKED_ONE_BY_ONE: usize = 8;

/// A [`LabelSelector`] that is prepared for checking many objects.
#[derive(Clone, Debug)]
pub struct LabelMatcher(Requirements);

#[derive(Clone, Debug)]
enum Requirements {
    Few(LabelSelector),
    Many(Arc<CombinedRequirements>),
}

/// The requirements, combined by key.
#[derive(Debug, Default)]
struct CombinedRequirements {
    keys: HashMap<String, Key>,
    /// The number of keys that an object must have.
    required: usize,
    /// True if no object matches.
    never: bool,
}

#[derive(Debug, Default)]
struct Key {
    required: bool,
    forbidden: bool,
    /// The allowed values; `None` allows any value.
    one_of: Option<HashSet<String>>,
    none_of: HashSet<String>,
    above: Option<i64>,
    below: Option<i64>,
}

impl From<LabelSelector> for LabelMatcher {
    fn from(selector: LabelSelector) -> Self {
        if selector.requirements.len() <= MAX_CHECKED_ONE_BY_ONE {
            return Self(Requirements::Few(selector));
        }
        let mut many = CombinedRequirements::default();
        for requirement in selector.requirements {
            many.add(requirement);
        }
        many.required = many.keys.values().filter(|key| key.required).count();
        Self(Requirements::Many(Arc::new(many)))
    }
}

impl LabelMatcher {
    /// Tells whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Requirements::Few(selector) => selector.requirements.is_empty(),
            Requirements::Many(_) => false,
        }
    }

    /// Tells whether an object with these labels fulfills all requirements.
    pub fn matches(&self, labels: &impl Labels) -> bool {
        match &self.0 {
            Requirements::Few(selector) => selector.matches(labels),
            Requirements::Many(many) => many.matches(labels),
        }
    }
}

impl CombinedRequirements {
    fn add(&mut self, requirement: LabelRequirement) {
        let LabelRequirement {
            key,
            operator,
            values,
        } = requirement;
        let key = self.keys.entry(key).or_default();
        let number = values.first().and_then(|value| value.parse().ok());
        match operator {
            Operator::Exists => key.required = true,
            Operator::DoesNotExist => key.forbidden = true,
            Operator::In => {
                key.required = true;
                let mut values: HashSet<String> = values.into_iter().collect();
                if let Some(before) = &key.one_of {
                    values.retain(|value| before.contains(value));
                }
                key.one_of = Some(values);
            }
            Operator::NotIn => key.none_of.extend(values),
            Operator::GreaterThan | Operator::LessThan => {
                key.required = true;
                let Some(number) = number else {
                    self.never = true;
                    return;
                };
                if operator == Operator::GreaterThan {
                    key.above = key.above.max(Some(number));
                } else {
                    let below = key.below.map_or(number, |before: i64| before.min(number));
                    key.below = Some(below);
                }
            }
        }
    }

    fn matches(&self, labels: &impl Labels) -> bool {
        let mut found = 0usize;
        for (key, value) in labels.pairs() {
            if let Some(key) = self.keys.get(key) {
                if !key.holds(value) {
                    return false;
                }
                found = found.saturating_add(usize::from(key.required));
            }
        }
        !self.never && found == self.required
    }
}

impl Key {
    fn holds(&self, value: &str) -> bool {
        let compares = || {
            let Ok(number) = value.parse::<i64>() else {
                return self.above.is_none() && self.below.is_none();
            };
            self.above.is_none_or(|above| number > above)
                && self.below.is_none_or(|below| number < below)
        };
        !self.forbidden
            && self.one_of.as_ref().is_none_or(|set| set.contains(value))
            && !self.none_of.contains(value)
            && compares()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;
    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    fn requirement() -> impl Strategy<Value = String> {
        let key = prop::sample::select(&["a", "b", "c", "d"][..]);
        let value = prop::sample::select(&["", "1", "2", "7", "x", "y"][..]);
        let number = prop::sample::select(&["1", "2", "7"][..]);
        prop_oneof![
            (key.clone(), value.clone()).prop_map(|(k, v)| format!("{k}={v}")),
            (key.clone(), value.clone()).prop_map(|(k, v)| format!("{k}!={v}")),
            (key.clone(), value.clone(), value.clone())
                .prop_map(|(k, v, w)| format!("{k} in ({v},{w})")),
            (key.clone(), value.clone(), value)
                .prop_map(|(k, v, w)| format!("{k} notin ({v},{w})")),
            key.clone().prop_map(str::to_owned),
            key.clone().prop_map(|k| format!("!{k}")),
            (key.clone(), number.clone()).prop_map(|(k, n)| format!("{k}>{n}")),
            (key, number).prop_map(|(k, n)| format!("{k}<{n}")),
        ]
    }

    fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
        let key = prop::sample::select(&["a", "b", "c", "e"][..]).prop_map(str::to_owned);
        let value = prop::sample::select(&["", "1", "2", "3", "7", "8", "x", "z"][..]);
        prop::collection::btree_map(key, value.prop_map(str::to_owned), 0..4)
    }

    /// Returns requirements that the labels meet, so that long selectors match
    /// sometimes.
    fn met(labels: &BTreeMap<String, String>) -> String {
        let met = labels.iter().map(|(k, v)| format!("{k},{k}={v},{k}!=q"));
        met.collect::<Vec<_>>().join(",")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn many_requirements_are_those_few_at_a_time(
            requirements in prop::collection::vec(requirement(), 0..3),
            labels in labels(),
        ) {
            let mut text: Vec<String> = requirements;
            text.push(met(&labels));
            text.extend((0..9).map(|n| format!("!other-{n}")));
            text.retain(|part| !part.is_empty());
            let selector = LabelSelector::parse(&text.join(",")).unwrap();
            let expected = selector.matches(&labels);
            let matcher = LabelMatcher::from(selector);
            prop_assert!(matches!(matcher.0, Requirements::Many(_)));
            prop_assert_eq!(matcher.matches(&labels), expected, "{} of {:?}", text.join(","), labels);
        }
    }

    /// Checked one by one, 13,000 requirements on 10,000 objects would take 10 s.
    #[test]
    fn a_selector_as_long_as_a_url_costs_an_object_no_more() {
        let keys = (0..13_000).map(|n| format!("!k{n}")).collect::<Vec<_>>();
        let values = (0..13_000).map(|n| format!("v{n}")).collect::<Vec<_>>();
        let unequal = (0..13_000).map(|n| format!("a!=v{n}")).collect::<Vec<_>>();
        let labels = BTreeMap::from([("a".to_owned(), "x".to_owned())]);
        for text in [
            keys.join(","),
            format!("a notin ({})", values.join(",")),
            unequal.join(","),
        ] {
            let matcher = LabelMatcher::from(LabelSelector::parse(&text).unwrap());
            // This is of one thread, since others may use the processors, too.
            let cpu_time = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
            let began = cpu_time();
            assert!((0..10_000).all(|_| matcher.matches(&labels)));
            assert!(cpu_time() - began < Duration::from_secs(1));
        }
    }
}
