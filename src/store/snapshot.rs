//! The objects of a resource at one version.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::{Cursor, ObjectKey, StoredObject};

/// The part of a resource a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    Namespace(String),
}

impl Scope {
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
        }
    }
}

/// A consistent state. Taking one costs a pointer.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub resource_version: u64,
    /// Events after this snapshot start here.
    pub cursor: Cursor,
    pub(super) objects: OrdMap<ObjectKey, Arc<StoredObject>>,
    pub(super) bytes: usize,
}

impl Snapshot {
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<StoredObject>> {
        self.objects.get(&ObjectKey::new(namespace, name))
    }

    /// Objects of the scope in key order.
    pub fn iter(&self, scope: &Scope) -> impl Iterator<Item = &Arc<StoredObject>> {
        self.iter_from(scope, "")
    }

    /// Objects of the scope in key order whose keys are `start` or above.
    pub fn iter_from(
        &self,
        scope: &Scope,
        start: &str,
    ) -> impl Iterator<Item = &Arc<StoredObject>> {
        let (from, to) = match scope {
            Scope::All => (String::new(), Bound::Unbounded),
            // '0' is the byte after '/': the half-open range holds exactly the
            // keys that start with "namespace/".
            Scope::Namespace(ns) => (format!("{ns}/"), Bound::Excluded(format!("{ns}0"))),
        };
        let from = Bound::Included(from.as_str().max(start));
        let to = to.as_ref().map(String::as_str);
        self.objects
            .range::<(Bound<&str>, Bound<&str>), str>((from, to))
            .map(|(_, object)| object)
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Bytes of the objects, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
