//! Labels of an object, in any form of storage.

use std::collections::BTreeMap;

/// The labels of an object, which a selector reads.
pub trait Labels {
    /// Returns the value of a label, or `None` if the object has no label with this
    /// key.
    fn value_of(&self, key: &str) -> Option<&str>;

    /// Returns all keys with their values.
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)>;
}

impl Labels for BTreeMap<String, String> {
    fn value_of(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}
