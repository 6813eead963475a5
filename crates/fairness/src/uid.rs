//! The UID of an object, as response headers carry it.

use std::collections::HashSet;
use std::sync::LazyLock;

use bytes::Bytes;
use http::HeaderValue;
use parking_lot::Mutex;

/// The UIDs that are kept forever. A header value of static text has no reference
/// count, for which threads would wait.
static KEPT: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// The most UIDs that are kept, and the greatest length of each. A cluster has a
/// few dozen of 36 bytes each, and a new one for each object that is created again.
const MOST_KEPT: usize = 4_096;
const LONGEST_KEPT: usize = 64;

/// A UID that is ready for a header.
#[derive(Debug)]
pub(crate) struct Uid(Option<HeaderValue>);

impl Uid {
    pub(crate) fn new(text: &str) -> Self {
        let value = match kept(text) {
            Some(text) => HeaderValue::from_maybe_shared(Bytes::from_static(text.as_bytes())).ok(),
            None => HeaderValue::from_str(text).ok(),
        };
        Self(value.filter(|value| !value.is_empty()))
    }

    /// Returns the header value, or `None` if the object is not in the cluster.
    pub(crate) fn value(&self) -> Option<&HeaderValue> {
        self.0.as_ref()
    }
}

/// Returns the text as static text, if there is room to keep it.
fn kept(text: &str) -> Option<&'static str> {
    let mut kept = KEPT.lock();
    if let Some(known) = kept.get(text) {
        return Some(known);
    }
    if kept.len() >= MOST_KEPT || text.len() > LONGEST_KEPT {
        return None;
    }
    let text: &'static str = Box::leak(text.into());
    kept.insert(text);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uid_is_a_value() {
        let long = "1".repeat(LONGEST_KEPT + 1);
        for (text, value) in [
            ("1-2", Some("1-2")),
            ("", None),
            ("a\nb", None),
            (&long, Some(&*long)),
        ] {
            for _ in 0..2 {
                let uid = Uid::new(text);
                let found = uid.value().map(HeaderValue::as_bytes);
                assert_eq!(found, value.map(str::as_bytes));
            }
        }
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        for n in 0..2 * MOST_KEPT {
            let text = format!("uid-{n}");
            let uid = Uid::new(&text);
            assert_eq!(
                uid.value().map(HeaderValue::as_bytes),
                Some(text.as_bytes())
            );
        }
        assert!(KEPT.lock().len() <= MOST_KEPT);
    }
}
