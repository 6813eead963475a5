//! A persistent ordered map of objects.
//!
//! A copy is a pointer. A change copies one leaf and the few nodes of the tree
//! above it. All states share what did not change.

use std::fmt;
use std::iter;
use std::ops::{Bound, Range};
use std::sync::Arc;

use imbl::OrdMap;

use super::buffer::Tally;
use super::tree_leaf::{Leaf, Lineage};
use super::{ObjectKey, StoredObject};

/// Objects per leaf when many are laid out at once. The number is small enough
/// that a change copies little, and large enough that a list has few pieces.
const LEAF_OBJECTS: usize = 32;
/// A larger leaf is split.
const MAX_LEAF_OBJECTS: usize = 2 * LEAF_OBJECTS;
/// A smaller leaf is merged with a neighbour.
const MIN_LEAF_OBJECTS: usize = LEAF_OBJECTS / 2;

#[derive(Clone)]
pub(super) struct ObjectTree {
    /// The leaves, by the key of the leaf's first object.
    leaves: OrdMap<ObjectKey, Arc<Leaf>>,
    len: usize,
    bytes: usize,
    tally: Arc<Tally>,
}

impl fmt::Debug for ObjectTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.leaves()).finish()
    }
}

#[derive(Debug)]
pub(super) enum Edit {
    Put(Arc<StoredObject>),
    Remove(ObjectKey),
}

impl Edit {
    fn key(&self) -> &ObjectKey {
        match self {
            Self::Put(object) => &object.key,
            Self::Remove(key) => key,
        }
    }
}

/// The state after some edits, and the leaves and objects of the previous state that
/// are no longer in it.
pub(super) struct Edited {
    pub(super) objects: ObjectTree,
    pub(super) leaves_gone: Vec<Arc<Leaf>>,
    pub(super) objects_gone: Vec<Arc<StoredObject>>,
}

impl Edited {
    /// Makes the state ready to be published in place of the previous one: see
    /// [`super::tree_leaf`] and [`super::buffer`].
    pub(super) fn succeed(self) -> ObjectTree {
        for leaf in &self.leaves_gone {
            leaf.retire();
        }
        for object in &self.objects_gone {
            for buffer in object.leave().into_iter().flatten() {
                if buffer.is_mostly_stale() {
                    let rest = self.objects.between(&buffer.first, &buffer.last);
                    rest.for_each(|object| object.move_out_of(&buffer));
                }
            }
        }
        self.objects
    }
}

impl ObjectTree {
    /// Builds the tree from objects in any order. Of several objects with one
    /// key, the last counts.
    pub(super) fn new(
        mut objects: Vec<Arc<StoredObject>>,
        tally: Arc<Tally>,
        lineage: Lineage,
    ) -> Self {
        objects.reverse();
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        objects.dedup_by(|later, first| later.key == first.key);
        let mut made = Self {
            leaves: OrdMap::new(),
            len: objects.len(),
            bytes: objects.iter().map(|o| o.size()).sum(),
            tally,
        };
        made.lay_out(objects, lineage);
        made
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    pub(super) fn leaves(&self) -> impl Iterator<Item = &Arc<Leaf>> {
        self.leaves.values()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<StoredObject>> {
        let (_, leaf) = self.leaves.get_prev(key)?;
        let objects = leaf.objects();
        let at = objects.binary_search_by(|o| o.key.as_str().cmp(key)).ok()?;
        objects.get(at)
    }

    /// Returns the part of the map with keys from `from` on and below `to`.
    pub(super) fn spans(&self, from: &str, to: Option<String>) -> Spans<'_> {
        let first = self.leaves.get_prev(from).map(|(key, _)| key.as_str());
        let first = first.map_or(Bound::Unbounded, Bound::Included);
        let range = (first, Bound::Unbounded);
        Spans {
            leaves: self.leaves.range::<(Bound<&str>, Bound<&str>), str>(range),
            from: from.to_owned(),
            to,
            beyond: None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<StoredObject>> {
        self.leaves().flat_map(|leaf| leaf.objects())
    }

    fn between<'s>(
        &'s self,
        first: &ObjectKey,
        last: &'s ObjectKey,
    ) -> impl Iterator<Item = &'s Arc<StoredObject>> {
        self.spans(first.as_str(), None)
            .flat_map(|span| span.objects())
            .take_while(move |o| o.key <= *last)
    }

    /// Applies the edits. Of several edits of one key, the last counts.
    pub(super) fn edit(&self, mut edits: Vec<Edit>, lineage: Lineage) -> Edited {
        if edits.len() > 1 {
            edits.reverse();
            edits.sort_by(|a, b| a.key().cmp(b.key()));
            edits.dedup_by(|later, first| later.key() == first.key());
        }
        let mut edited = Edited {
            objects: self.clone(),
            leaves_gone: Vec::new(),
            objects_gone: Vec::new(),
        };
        let mut edits = edits.into_iter().peekable();
        while let Some(edit) = edits.next() {
            let Some((leaf, end)) = edited.objects.covering(edit.key()) else {
                // The tree is empty.
                let rest: Vec<_> = std::iter::once(edit)
                    .chain(edits)
                    .filter_map(|edit| match edit {
                        Edit::Put(object) => Some(object),
                        Edit::Remove(_) => None,
                    })
                    .collect();
                edited.objects.count(&rest, &[]);
                edited.objects.lay_out(rest, lineage);
                break;
            };
            let mut of_leaf = vec![edit];
            while let Some(edit) =
                edits.next_if(|edit| end.as_ref().is_none_or(|end| edit.key() < end))
            {
                of_leaf.push(edit);
            }
            edited.replace(&leaf, of_leaf, lineage);
        }
        edited
    }

    /// Returns the leaf that holds a key or would hold it, and the key of the
    /// next leaf.
    fn covering(&self, key: &ObjectKey) -> Option<(Arc<Leaf>, Option<ObjectKey>)> {
        let (first, leaf) = self
            .leaves
            .get_prev(key)
            .or_else(|| self.leaves.get_min().map(|(k, l)| (k, l)))?;
        let next = self.after(first).map(|(key, _)| key.clone());
        Some((leaf.clone(), next))
    }

    fn after(&self, first: &ObjectKey) -> Option<(&ObjectKey, &Arc<Leaf>)> {
        let range = (Bound::Excluded(first), Bound::Unbounded);
        self.leaves
            .range::<(Bound<&ObjectKey>, Bound<&ObjectKey>), ObjectKey>(range)
            .next()
    }

    fn count(&mut self, come: &[Arc<StoredObject>], gone: &[Arc<StoredObject>]) {
        let size = |objects: &[Arc<StoredObject>]| objects.iter().map(|o| o.size()).sum::<usize>();
        self.len = self.len.saturating_add(come.len());
        self.len = self.len.saturating_sub(gone.len());
        self.bytes = self.bytes.saturating_add(size(come));
        self.bytes = self.bytes.saturating_sub(size(gone));
    }

    /// Inserts leaves of these objects. Their keys are in order and in no leaf.
    fn lay_out(&mut self, objects: Vec<Arc<StoredObject>>, lineage: Lineage) {
        let pieces = if objects.len() > MAX_LEAF_OBJECTS {
            objects.len() / LEAF_OBJECTS
        } else {
            1
        };
        let mut objects = objects.into_iter();
        for pieces in (1..=pieces).rev() {
            let size = objects.len().div_ceil(pieces);
            let piece: Box<[_]> = objects.by_ref().take(size).collect();
            let Some(first) = piece.first() else { return };
            let key = first.key.clone();
            self.leaves
                .insert(key, Leaf::new(piece, lineage, &self.tally));
        }
    }
}

impl Edited {
    /// Applies edits in key order that all concern one leaf.
    fn replace(&mut self, leaf: &Arc<Leaf>, edits: Vec<Edit>, lineage: Lineage) {
        let gone = self.objects_gone.len();
        let before = leaf.objects();
        let mut come = Vec::new();
        let mut after = Vec::with_capacity(before.len().saturating_add(edits.len()));
        let mut rest = before;
        let mut changed = false;
        for edit in edits {
            let at = rest.partition_point(|o| o.key < *edit.key());
            let (kept, from) = rest.split_at(at);
            after.extend_from_slice(kept);
            rest = from;
            if let [same, others @ ..] = rest
                && same.key == *edit.key()
            {
                self.objects_gone.push(same.clone());
                rest = others;
                changed = true;
            }
            if let Edit::Put(object) = edit {
                come.push(object.clone());
                after.push(object);
                changed = true;
            }
        }
        if !changed {
            return;
        }
        after.extend_from_slice(rest);
        let gone = self.objects_gone.get(gone..).unwrap_or_default();
        self.objects.count(&come, gone);
        let first = before.first().map(|o| o.key.clone());
        if let Some(first) = first {
            self.swap(&first, after, lineage);
        }
    }

    /// Replaces the leaf that begins with `first` by leaves of these objects.
    fn swap(&mut self, first: &ObjectKey, mut objects: Vec<Arc<StoredObject>>, lineage: Lineage) {
        // If the key stays, one insertion replaces the leaf: one way down the
        // tree instead of two.
        let stays = objects.first().is_some_and(|o| o.key == *first);
        if objects.len() < MIN_LEAF_OBJECTS {
            let next = self.objects.after(first).map(|(_, leaf)| leaf.clone());
            if let Some(next) = next {
                self.take(&next);
                objects.extend_from_slice(next.objects());
            }
        }
        if objects.len() < MIN_LEAF_OBJECTS || !stays {
            let before = self.objects.leaves.remove(first);
            self.leaves_gone.extend(before);
        }
        if objects.len() < MIN_LEAF_OBJECTS {
            let last = self.objects.leaves.get_max().map(|(_, leaf)| leaf.clone());
            if let Some(last) = last {
                self.take(&last);
                objects.splice(0..0, last.objects().iter().cloned());
            }
        }
        if stays {
            let before = self.objects.leaves.get(first).cloned();
            self.leaves_gone.extend(before);
        }
        self.objects.lay_out(objects, lineage);
    }

    fn take(&mut self, leaf: &Arc<Leaf>) {
        if let Some(first) = leaf.objects().first() {
            let gone = self.objects.leaves.remove(&first.key);
            self.leaves_gone.extend(gone);
        }
    }
}

/// Whole and partial leaves in key order.
pub(super) struct Spans<'s> {
    leaves: imbl::ordmap::RangedIter<'s, ObjectKey, Arc<Leaf>, imbl::shared_ptr::DefaultSharedPtr>,
    /// Where the range begins, until a leaf was given.
    from: String,
    to: Option<String>,
    beyond: Option<&'s ObjectKey>,
}

/// At least one object of one leaf.
pub(crate) struct Span<'s> {
    pub(crate) leaf: &'s Arc<Leaf>,
    pub(super) range: Range<usize>,
}

impl<'s> Span<'s> {
    pub(crate) fn objects(&self) -> &'s [Arc<StoredObject>] {
        let objects = self.leaf.objects();
        objects.get(self.range.clone()).unwrap_or_default()
    }

    /// Returns the objects with their places in the leaf.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (usize, &'s Arc<StoredObject>)> + use<'s> {
        iter::zip(self.range.clone(), self.objects())
    }

    /// Tells whether the other begins where this one ends, in the same leaf.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.leaf, other.leaf) && self.range.end == other.range.start
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.range.len() == self.leaf.objects().len()
    }
}

impl<'s> Spans<'s> {
    /// When all spans were given, returns the key of the first object above the range.
    pub(super) fn beyond(&self) -> Option<&'s ObjectKey> {
        self.beyond
    }
}

impl<'s> Iterator for Spans<'s> {
    type Item = Span<'s>;

    fn next(&mut self) -> Option<Span<'s>> {
        while self.beyond.is_none() {
            let (first, leaf) = self.leaves.next()?;
            let objects = leaf.objects();
            // Only the first leaf may begin before the range. No other is compared: with
            // an empty text, glibc's `memcmp` for AVX-512 takes over 100 ns.
            let from = std::mem::take(&mut self.from);
            let start = if !from.is_empty() && *first.as_str() < *from {
                objects.partition_point(|o| *o.key.as_str() < *from)
            } else {
                0
            };
            let end = match &self.to {
                Some(to) if first.as_str() >= to.as_str() => 0,
                Some(to)
                    if objects
                        .last()
                        .is_some_and(|o| o.key.as_str() >= to.as_str()) =>
                {
                    objects.partition_point(|o| o.key.as_str() < to.as_str())
                }
                _ => objects.len(),
            };
            self.beyond = objects.get(end).map(|object| &object.key);
            if start < end {
                let range = start..end;
                return Some(Span { leaf, range });
            }
        }
        None
    }
}
