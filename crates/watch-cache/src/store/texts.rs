//! Short texts in one piece of memory. Millions of them are kept.

use std::collections::BTreeMap;

use kubernetes_wire::api::Labels;

/// The bits of a length that one character holds, and the bit that says that
/// another character follows.
const LENGTH_BITS: u32 = 6;
const MORE_BIT: u8 = 1 << LENGTH_BITS;

/// Texts in order. The length of each precedes it, as ASCII characters with the
/// lowest bits first. So the whole is text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts<'a>(&'a str);

impl<'a> Texts<'a> {
    /// Reads texts that [`joined`] has joined.
    pub fn from_joined(joined: &'a str) -> Self {
        Self(joined)
    }

    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let text;
            (text, rest) = split_first(rest)?;
            Some(text)
        })
    }

    pub fn get(self, index: usize) -> Option<&'a str> {
        self.iter().nth(index)
    }
}

/// Splits off the first of joined texts.
fn split_first(joined: &str) -> Option<(&str, &str)> {
    let mut length = 0_usize;
    let mut shift = 0;
    for (at, byte) in joined.bytes().enumerate() {
        length |= usize::from(byte & !MORE_BIT).checked_shl(shift)?;
        if byte & MORE_BIT == 0 {
            let (_, rest) = joined.split_at_checked(at.checked_add(1)?)?;
            return rest.split_at_checked(length);
        }
        shift = shift.checked_add(LENGTH_BITS)?;
    }
    None
}

fn push(joined: &mut String, text: &str) {
    let mut length = text.len();
    loop {
        let bits = (length & usize::from(MORE_BIT - 1)) as u8;
        length >>= LENGTH_BITS;
        let more = if length > 0 { MORE_BIT } else { 0 };
        joined.push(char::from(bits | more));
        if length == 0 {
            break;
        }
    }
    joined.push_str(text);
}

/// Joins texts for [`Texts`] to read.
pub(super) fn joined<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let mut joined = String::new();
    for text in texts {
        push(&mut joined, text.as_ref());
    }
    joined
}

/// The values that selectors test besides the key: an object's UID, its field values
/// and its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectTexts(Box<str>);

impl ObjectTexts {
    /// `fields` are [`joined`] values.
    pub(super) fn new(uid: &str, fields: &str, labels: &BTreeMap<String, String>) -> Self {
        let mut all = String::new();
        push(&mut all, uid);
        push(&mut all, fields);
        for (key, value) in labels {
            push(&mut all, key);
            push(&mut all, value);
        }
        // A copy takes no more memory than it needs. A buffer that is shrunk may
        // stay in its larger block.
        Self(all.as_str().into())
    }

    pub(super) fn uid(&self) -> &str {
        Texts(&self.0).get(0).unwrap_or_default()
    }

    pub(super) fn fields(&self) -> Texts<'_> {
        Texts(Texts(&self.0).get(1).unwrap_or_default())
    }

    pub(super) fn labels(&self) -> LabelTexts<'_> {
        let rest = split_first(&self.0).and_then(|(_, rest)| split_first(rest));
        LabelTexts(Texts(rest.map_or("", |(_, rest)| rest)))
    }

    /// Returns the bytes that are held besides the value itself.
    pub(super) fn size(&self) -> usize {
        self.0.len()
    }
}

/// An object's labels: each key is followed by its value.
#[derive(Clone, Copy, Debug)]
pub struct LabelTexts<'a>(Texts<'a>);

impl Labels for LabelTexts<'_> {
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

    #[test]
    fn lengths_of_any_size_are_read() {
        for length in [0, 1, 63, 64, 65, 4_095, 4_096, 70_000, 300_000] {
            let text = "é".repeat(length);
            let joined = joined([&text, "x", &text]);
            let texts: Vec<_> = Texts(&joined).iter().collect();
            assert!(texts == [&text, "x", &text], "{length}");
        }
    }

    proptest! {
        #[test]
        fn texts_are_those_that_were_joined(texts in prop::collection::vec(".{0,5}", 0..6)) {
            let joined = joined(&texts);
            let read = Texts(&joined);
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), texts.clone());
            for index in 0..8 {
                prop_assert_eq!(read.get(index), texts.get(index).map(String::as_str));
            }
        }

        #[test]
        fn nothing_makes_it_panic(text in ".{0,40}") {
            let texts = Texts(&text).iter().count();
            prop_assert!(texts <= text.len());
        }

        #[test]
        fn an_object_has_what_it_was_given(
            uid in ".{0,40}",
            fields in prop::collection::vec(".{0,9}", 0..4),
            labels in prop::collection::btree_map("[a-c]{1,2}", ".{0,3}", 0..5),
        ) {
            let stored = ObjectTexts::new(&uid, &joined(&fields), &labels);
            prop_assert_eq!(stored.uid(), uid);
            prop_assert_eq!(stored.fields().iter().collect::<Vec<_>>(), fields);
            let read = stored.labels();
            prop_assert_eq!(read.pairs().collect::<Vec<_>>(), labels.pairs().collect::<Vec<_>>());
            for key in ["a", "b", "aa", "bc", "", "x"] {
                prop_assert_eq!(read.value_of(key), labels.value_of(key));
            }
        }
    }
}
