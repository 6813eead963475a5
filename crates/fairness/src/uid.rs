//! The UID of an object, as answers name it.

use http::HeaderValue;
use thread_local::ThreadLocal;

/// A UID that is ready for a header. A value has a count of its users, so each
/// thread has one of its own: threads would wait for each other to count.
#[derive(Debug)]
pub(crate) struct Uid {
    text: String,
    values: ThreadLocal<Option<HeaderValue>>,
}

impl Uid {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            values: ThreadLocal::new(),
        }
    }

    /// Returns the value of a header. Objects that are not the cluster's have no
    /// UID.
    pub(crate) fn value(&self) -> Option<&HeaderValue> {
        let value = || {
            HeaderValue::from_str(&self.text)
                .ok()
                .filter(|value| !value.is_empty())
        };
        self.values.get_or(value).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uid_is_a_value() {
        for (text, value) in [("1-2", Some("1-2")), ("", None), ("a\nb", None)] {
            let uid = Uid::new(text);
            for _ in 0..2 {
                assert_eq!(
                    uid.value().map(HeaderValue::as_bytes),
                    value.map(str::as_bytes)
                );
            }
        }
    }
}
