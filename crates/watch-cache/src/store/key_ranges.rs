//! Sets of objects as ranges of their keys.

use std::cmp::max;

use super::{ObjectKey, Visible};

/// Half-open ranges of keys, in order and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRanges(Vec<(String, String)>);

impl KeyRanges {
    pub(crate) fn from_visible(visible: &Visible) -> Self {
        Self(visible.ranges("").collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the ranges at or above a key. The first of them may begin below it.
    pub(super) fn at_or_above(
        &self,
        key: &str,
    ) -> impl Iterator<Item = (String, Option<String>)> + use<'_> {
        let below = self.0.partition_point(|(_, to)| to.as_str() <= key);
        let above = self.0.get(below..).unwrap_or_default().iter().cloned();
        above.map(|(from, to)| (from, Some(to)))
    }

    fn iter(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.iter()
    }

    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        let key = key.as_str();
        let above = self.0.partition_point(|(from, _)| from.as_str() <= key);
        let last = above.checked_sub(1).and_then(|last| self.0.get(last));
        last.is_some_and(|(_, to)| key < to.as_str())
    }

    /// Returns the keys that are not in the other ranges.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let mut rest = Vec::new();
        let mut others = other.iter().peekable();
        for (from, to) in &self.0 {
            let mut from = from;
            while others.next_if(|(_, end)| end <= from).is_some() {}
            while let Some((begin, end)) = others.peek().filter(|(begin, _)| begin < to) {
                if from < begin {
                    rest.push((from.clone(), begin.clone()));
                }
                from = max(from, end);
                if end >= to {
                    break;
                }
                others.next();
            }
            if from < to {
                rest.push((from.clone(), to.clone()));
            }
        }
        Self(rest)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut all: Vec<_> = self.iter().chain(other.iter()).cloned().collect();
        all.sort_unstable();
        let mut joined: Vec<(String, String)> = Vec::with_capacity(all.len());
        for (from, to) in all {
            match joined.last_mut() {
                Some((_, end)) if from <= *end => {
                    if *end < to {
                        *end = to;
                    }
                }
                _ => joined.push((from, to)),
            }
        }
        Self(joined)
    }

    pub(crate) fn below(&self, key: &ObjectKey) -> Self {
        let key = key.as_str();
        let below = self.iter().take_while(|(from, _)| from.as_str() < key);
        let below = below.map(|(from, to)| match to.as_str() <= key {
            true => (from.clone(), to.clone()),
            false => (from.clone(), key.to_owned()),
        });
        Self(below.collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(digits: &[u8]) -> KeyRanges {
        let one = |digit: &u8| (format!("{digit}"), format!("{}", digit + 1));
        let each = digits.iter().map(|d| KeyRanges(vec![one(d)]));
        each.fold(KeyRanges::default(), |all, one| all.plus(&one))
    }

    fn digits(of: &KeyRanges) -> Vec<u8> {
        let held = |d: &u8| of.contains(&ObjectKey::new("", &d.to_string()));
        (0..9).filter(held).collect()
    }

    proptest! {
        #[test]
        fn ranges_are_sets(a in proptest::collection::btree_set(0..9_u8, 0..9),
                           b in proptest::collection::btree_set(0..9_u8, 0..9),
                           cut in 0..10_u8) {
            let of = |set: &std::collections::BTreeSet<u8>| ranges(&set.iter().copied().collect::<Vec<_>>());
            let (x, y) = (of(&a), of(&b));
            prop_assert_eq!(digits(&x), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(digits(&x.minus(&y)), a.difference(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(digits(&x.plus(&y)), a.union(&b).copied().collect::<Vec<_>>());
            let below: Vec<_> = a.iter().copied().filter(|d| *d < cut).collect();
            prop_assert_eq!(digits(&x.below(&ObjectKey::new("", &cut.to_string()))), below);
            prop_assert_eq!(x.minus(&y).is_empty(), a.is_subset(&b));
            for made in [x.minus(&y), x.plus(&y), y.minus(&x)] {
                let ends: Vec<_> = made.iter().flat_map(|(from, to)| [from, to]).collect();
                prop_assert!(ends.is_sorted_by(|a, b| a < b), "{made:?}");
            }
        }
    }

    #[test]
    fn ranges_may_be_cut_within_a_namespace() {
        let names = |namespaces: &[&str]| {
            let names = namespaces.iter().map(|n| (*n).to_owned()).collect();
            KeyRanges::from_visible(&Visible::new(&names, &Default::default()))
        };
        let (both, a) = (names(&["a", "b"]), names(&["a"]));
        assert_eq!(both.minus(&a), names(&["b"]));
        let at = ObjectKey::new("b", "k");
        let shown = a.plus(&both.minus(&a).below(&at));
        assert!(shown.contains(&ObjectKey::new("b", "j")) && !shown.contains(&at));
        let rest = both.minus(&shown);
        assert!(rest.contains(&at) && !rest.contains(&ObjectKey::new("a", "z")));
        assert_eq!(shown.plus(&rest), both);
    }
}
