//! The objects of a resource at one version.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use kubernetes_wire::api::FieldSelector;
use kubernetes_wire::representation::Envelope;

use super::field_digest::IndexedValue;
use super::object_tree::{Edit, ObjectTree, Span, Spans};
use super::tree_leaf::{Leaf, Lineage};
use super::{Cursor, Filter, KeyRanges, KeyScope, ObjectKey, Resource, StoredObject};

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
        scope: &KeyScope,
    ) -> impl Iterator<Item = &'s Arc<StoredObject>> + use<'s> {
        self.iter_from(scope, "")
    }

    /// Returns the objects of the leaves in which some may match, in key order.
    pub(crate) fn candidates<'s, 'f>(
        &'s self,
        filter: &'f Filter,
    ) -> impl Iterator<Item = &'s Arc<StoredObject>> + use<'s, 'f> {
        self.spans(&filter.scope, "")
            .filter(|span| filter.may_match_in(span.leaf))
            .flat_map(|span| span.objects())
    }

    /// Returns the objects of the scope in key order, from the key `start` on. A key
    /// ([`ObjectKey::as_str`]) includes the namespace.
    pub(crate) fn iter_from<'s>(
        &'s self,
        scope: &KeyScope,
        start: &str,
    ) -> impl Iterator<Item = &'s Arc<StoredObject>> + use<'s> {
        self.spans(scope, start).flat_map(|span| span.objects())
    }

    /// Returns all objects as JSON. `None` if one cannot be written so.
    pub fn json(&self, envelope: &Envelope) -> Option<Vec<Bytes>> {
        let objects = self.iter(&KeyScope::All);
        objects.map(|object| object.json(envelope)).collect()
    }

    /// Returns the number of objects that [`iter_from`](Self::iter_from) gives,
    /// without going through them.
    pub fn count_from(&self, scope: &KeyScope, start: &str) -> usize {
        self.spans(scope, start).map(|span| span.range.len()).sum()
    }

    /// Returns the number of objects that a list looks at, with a leaf that it passes over
    /// counted as one. What is not known yet counts as if it had to be looked at.
    pub fn count_looked_at(
        &self,
        scope: &KeyScope,
        fields: &FieldSelector,
        resource: &Resource,
    ) -> usize {
        let Some(value) = IndexedValue::required(fields, resource) else {
            return self.count_from(scope, "");
        };
        let looked_at = |span: Span<'_>| match value.is_known_absent(span.leaf) {
            true => 1,
            false => span.range.len(),
        };
        self.spans(scope, "").map(looked_at).sum()
    }

    /// Returns the objects of [`iter_from`](Self::iter_from), in whole leaves
    /// where possible.
    pub fn parts<'s>(
        &'s self,
        scope: &KeyScope,
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

    /// Returns the objects of [`iter_from`](Self::iter_from), by leaf.
    pub(crate) fn spans<'s>(
        &'s self,
        scope: &KeyScope,
        start: &str,
    ) -> impl Iterator<Item = Span<'s>> + use<'s> {
        let scope = scope.clone();
        self.spans_of(start, move |key| scope.ranges(key))
    }

    /// Returns the objects with keys in the ranges, which are in order. Objects of
    /// several ranges that are neighbours in a leaf come in one span.
    ///
    /// `ranges_from` returns the ranges at or above a key. Ranges that hold no object
    /// cost nothing: a caller may see many names, and few of them may exist.
    fn spans_of<'s, F, R>(
        &'s self,
        start: &str,
        ranges_from: F,
    ) -> impl Iterator<Item = Span<'s>> + use<'s, F, R>
    where
        F: Fn(&str) -> R,
        R: Iterator<Item = (String, Option<String>)>,
    {
        let mut ranges = ranges_from(start);
        let mut of_range: Option<Spans<'s>> = None;
        let spans = iter::from_fn(move || {
            loop {
                let next = match &mut of_range {
                    None => "",
                    Some(spans) => match spans.next() {
                        Some(span) => return Some(span),
                        None => spans.beyond()?.as_str(),
                    },
                };
                let (mut from, mut to) = ranges.next()?;
                if to.as_deref().is_some_and(|to| to <= next) {
                    ranges = ranges_from(next);
                    (from, to) = ranges.next()?;
                }
                of_range = Some(self.objects.spans(&from, to));
            }
        });
        let mut spans = spans.peekable();
        iter::from_fn(move || {
            let mut span = spans.next()?;
            while let Some(next) = spans.next_if(|next| span.is_before(next)) {
                span.range.end = next.range.end;
            }
            Some(span)
        })
    }

    pub(crate) fn objects_in<'s, 'r>(
        &'s self,
        ranges: &'r KeyRanges,
    ) -> impl Iterator<Item = &'s Arc<StoredObject>> + use<'s, 'r> {
        let ranges_from = |key: &str| ranges.at_or_above(key);
        self.spans_of("", ranges_from)
            .flat_map(|span| span.objects())
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
