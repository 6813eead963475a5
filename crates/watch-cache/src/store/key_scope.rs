//! The part of a resource that a request is about.

use super::visible::after_namespace;
use super::{ObjectKey, Visible};

/// The part of a resource that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyScope {
    All,
    Namespace(String),
    /// The objects in all namespaces that a caller may see.
    Visible(Visible),
}

impl KeyScope {
    pub fn from_namespace(namespace: &str) -> Self {
        if namespace.is_empty() {
            Self::All
        } else {
            Self::Namespace(namespace.to_owned())
        }
    }

    pub fn contains(&self, key: &ObjectKey) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => key.namespace() == namespace,
            Self::Visible(visible) => visible.contains(key),
        }
    }

    /// Returns the scope's ranges of keys at or above `start`, in order. Each is
    /// half-open: it ends before its second key.
    pub(super) fn ranges(
        &self,
        start: &str,
    ) -> impl Iterator<Item = (String, Option<String>)> + use<> {
        let (one, many) = match self {
            Self::All => (Some((start.to_owned(), None)), None),
            Self::Namespace(namespace) => {
                let from = format!("{namespace}/").max(start.to_owned());
                (Some((from, Some(after_namespace(namespace)))), None)
            }
            Self::Visible(visible) => (None, Some(visible.ranges(start))),
        };
        let many = many.into_iter().flatten();
        let many = many.map(|(from, to)| (from, Some(to)));
        one.into_iter().chain(many)
    }
}
