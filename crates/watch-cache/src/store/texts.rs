//! Short texts in one piece of memory. Millions of them are kept.

use std::collections::BTreeMap;

use kubernetes_wire::api::Labels;

/// Texts in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    joined: Box<str>,
    /// Where each text ends.
    ends: Box<[u32]>,
}

impl Texts {
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.joined
            .get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).filter_map(|index| self.get(index))
    }

    /// Returns the bytes that are held beside the value itself.
    pub fn size(&self) -> usize {
        self.joined
            .len()
            .saturating_add(size_of_val::<[u32]>(&self.ends))
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    /// Joins texts. Of more than 4 GiB together, which no object has, the last
    /// ones are lost.
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let (mut joined, mut ends) = (String::new(), Vec::new());
        for text in texts {
            let text = text.as_ref();
            let Ok(end) = u32::try_from(joined.len().saturating_add(text.len())) else {
                break;
            };
            joined.push_str(text);
            ends.push(end);
        }
        Self {
            joined: joined.into(),
            ends: ends.into(),
        }
    }
}

/// An object's labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelTexts(Texts);

impl LabelTexts {
    pub fn size(&self) -> usize {
        self.0.size()
    }
}

impl From<BTreeMap<String, String>> for LabelTexts {
    fn from(labels: BTreeMap<String, String>) -> Self {
        Self(labels.iter().flat_map(|(k, v)| [k, v]).collect())
    }
}

impl Labels for LabelTexts {
    fn value_of(&self, key: &str) -> Option<&str> {
        self.pairs()
            .find_map(|(name, value)| (name == key).then_some(value))
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.0.iter();
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_those_that_were_joined(texts in prop::collection::vec(".{0,5}", 0..6)) {
            let joined: Texts = texts.iter().collect();
            prop_assert_eq!(joined.iter().collect::<Vec<_>>(), texts.clone());
            for index in 0..8 {
                prop_assert_eq!(joined.get(index), texts.get(index).map(String::as_str));
            }
        }

        #[test]
        fn labels_are_found(labels in prop::collection::btree_map("[a-c]{1,2}", ".{0,3}", 0..5)) {
            let stored = LabelTexts::from(labels.clone());
            prop_assert_eq!(stored.pairs().collect::<Vec<_>>(), labels.pairs().collect::<Vec<_>>());
            for key in ["a", "b", "aa", "bc", "", "x"] {
                prop_assert_eq!(stored.value_of(key), labels.value_of(key));
            }
        }
    }
}
