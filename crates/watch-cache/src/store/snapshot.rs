//! The objects of a resource at one version.

use std::iter;
use std::sync::Arc;

use super::object_tree::{Edit, ObjectTree, Spans};
use super::tree_leaf::{Leaf, Lineage};
use super::{Cursor, ObjectKey, StoredObject};

/// The part of a resource that a request is about.
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

/// A consistent state. Taking a snapshot costs a pointer.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub resource_version: u64,
    /// Events after this snapshot start here.
    pub cursor: Cursor,
    pub(super) objects: ObjectTree,
    /// The history that the snapshot belongs to. A reset of the store begins
    /// another.
    pub(super) epoch: u64,
    /// Bytes of all objects that had left the state when the snapshot was
    /// taken.
    pub(super) departed: u64,
    /// Bytes of objects that the store never had.
    pub(super) foreign: usize,
}

/// A piece of a range of objects.
#[derive(Clone, Copy, Debug)]
pub enum Part<'s> {
    /// All objects of this leaf.
    Leaf(&'s Arc<Leaf>),
    /// An object of a leaf that is partly outside of the range.
    Object(&'s Arc<StoredObject>),
}

impl Snapshot {
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<StoredObject>> {
        self.objects.get(ObjectKey::new(namespace, name).as_str())
    }

    /// Returns the objects of the scope in key order.
    pub fn iter<'s>(
        &'s self,
        scope: &Scope,
    ) -> impl Iterator<Item = &'s Arc<StoredObject>> + use<'s> {
        self.iter_from(scope, "")
    }

    /// Returns the objects of the scope, in key order, whose key
    /// ([`ObjectKey::as_str`], with the namespace) is not below `start`.
    pub(crate) fn iter_from<'s>(
        &'s self,
        scope: &Scope,
        start: &str,
    ) -> impl Iterator<Item = &'s Arc<StoredObject>> + use<'s> {
        self.spans(scope, start).flat_map(|span| span.objects())
    }

    /// Returns the number of objects that [`iter_from`](Self::iter_from) gives,
    /// without going through them.
    pub fn count_from(&self, scope: &Scope, start: &str) -> usize {
        self.spans(scope, start).map(|span| span.range.len()).sum()
    }

    /// Returns the objects of [`iter_from`](Self::iter_from), in whole leaves
    /// where possible.
    pub fn parts<'s>(
        &'s self,
        scope: &Scope,
        start: &str,
    ) -> impl Iterator<Item = Part<'s>> + use<'s> {
        self.spans(scope, start).flat_map(|span| {
            let (leaf, objects) = if span.is_whole() {
                (Some(span.leaf), &[][..])
            } else {
                (None, span.objects())
            };
            let objects = objects.iter().map(Part::Object);
            leaf.map(Part::Leaf).into_iter().chain(objects)
        })
    }

    fn spans(&self, scope: &Scope, start: &str) -> Spans<'_> {
        match scope {
            Scope::All => self.objects.spans(start, None),
            Scope::Namespace(namespace) => {
                // '0' is the byte after '/': the half-open range holds exactly
                // the keys that start with "namespace/".
                let from = format!("{namespace}/");
                let to = format!("{namespace}0");
                self.objects.spans(start.max(&from), Some(to))
            }
        }
    }

    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Arc<Leaf>> {
        self.objects.leaves()
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the objects, roughly.
    pub fn bytes(&self) -> usize {
        self.objects.bytes()
    }

    /// Returns the state that differs from this one by some objects that
    /// another source knows at `version`. Both share what did not change. The
    /// store does not publish the new state: its changed leaves are not joined.
    #[must_use]
    pub fn with(
        &self,
        version: u64,
        upserts: Vec<Arc<StoredObject>>,
        removals: Vec<ObjectKey>,
    ) -> Self {
        let foreign: usize = upserts.iter().map(|o| o.size()).sum();
        let removals = removals.into_iter().map(Edit::Remove);
        let edits = iter::chain(removals, upserts.into_iter().map(Edit::Put));
        Self {
            resource_version: version,
            cursor: self.cursor.knowing(version),
            objects: self.objects.edit(edits.collect(), Lineage::Aside).objects,
            epoch: self.epoch,
            departed: self.departed,
            foreign: self.foreign.saturating_add(foreign),
        }
    }
}
