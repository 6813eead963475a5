//! An object's place in its resource.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// `namespace/name`, or `name` for cluster-scoped objects. Keys are ordered by
/// the bytes of that joined text. This is the order of etcd, and therefore of
/// lists and continue tokens: `a-b/x` sorts before `a/x`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            Self(name.into())
        } else {
            Self(format!("{namespace}/{name}").into())
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the namespace, which is empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_joined_bytes() {
        let mut keys = [
            ObjectKey::new("a", "x"),
            ObjectKey::new("a-b", "x"),
            ObjectKey::new("a", "b"),
            ObjectKey::new("", "node"),
        ];
        keys.sort();
        let names: Vec<_> = keys.iter().map(ObjectKey::as_str).collect();
        assert_eq!(names, ["a-b/x", "a/b", "a/x", "node"]);
        assert_eq!((keys[0].namespace(), keys[0].name()), ("a-b", "x"));
        assert_eq!((keys[3].namespace(), keys[3].name()), ("", "node"));
    }
}
