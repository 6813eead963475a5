//! What an answer shows of objects: everything, or everything but managedFields.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use kubernetes_wire::negotiation::MetaVersion;
use kubernetes_wire::representation::partial_object_metadata::Metadata;
use kubernetes_wire::representation::{Encoding, Envelope, partial_object_metadata_protobuf};

use crate::store::{CountedValue, Derived, Leaf, StoredObject, without_managed_fields};

/// The objects of one resource as one answer shows them.
pub(super) struct Shown<'a> {
    envelope: &'a Envelope,
    without_managed_fields: bool,
    /// The bytes that were left out so far.
    left_out: Cell<usize>,
}

impl<'a> Shown<'a> {
    pub(super) fn new(envelope: &'a Envelope, without_managed_fields: bool) -> Self {
        Self {
            envelope,
            without_managed_fields,
            left_out: Cell::new(0),
        }
    }

    pub(super) fn envelope(&self) -> &'a Envelope {
        self.envelope
    }

    pub(super) fn is_whole(&self) -> bool {
        !self.without_managed_fields
    }

    /// Returns the bytes that were left out so far.
    pub(super) fn left_out(&self) -> usize {
        self.left_out.get()
    }

    /// Returns the object as an item of a list. `None` if it cannot be written in the
    /// encoding.
    pub(super) fn item(&self, object: &StoredObject, encoding: Encoding) -> Option<Bytes> {
        let item = object.item(encoding, self.envelope)?;
        self.cut(item, encoding)
    }

    pub(super) fn json(&self, object: &StoredObject) -> Option<Bytes> {
        self.item(object, Encoding::Json)
    }

    /// Returns the object's metadata. If something is left out, the metadata does not
    /// refer to the object's JSON.
    pub(super) fn metadata(&self, object: &StoredObject) -> Option<Metadata> {
        let metadata = object.metadata(self.envelope)?;
        if self.is_whole() {
            return Some(metadata);
        }
        let json = object.json_of(&metadata, self.envelope)?;
        let rest = metadata.without_managed_fields(&json)?;
        let lacks = metadata.bytes(&json).len();
        self.note_left_out(lacks.saturating_sub(rest.bytes(&[]).len()));
        Some(rest)
    }

    /// Returns the object as a PartialObjectMetadata message.
    pub(super) fn message(&self, object: &StoredObject, version: MetaVersion) -> Option<Bytes> {
        let (encoding, envelope) = (object.encoding(), self.envelope);
        let item = object.item(encoding, envelope)?;
        let message =
            partial_object_metadata_protobuf::from_item(encoding, &item, envelope, version)?;
        self.cut(message, Encoding::Protobuf)
    }

    fn cut(&self, item: Bytes, encoding: Encoding) -> Option<Bytes> {
        if self.is_whole() {
            return Some(item);
        }
        let (rest, bytes) = without_managed_fields(&item, encoding)?;
        self.note_left_out(bytes);
        Some(rest)
    }

    pub(super) fn note_left_out(&self, bytes: usize) {
        self.left_out.set(self.left_out.get().saturating_add(bytes));
    }

    /// Returns what `make` makes of the leaf's objects. The leaf keeps it.
    pub(super) fn kept<T: Derived>(
        &self,
        leaf: &Leaf,
        make: impl FnOnce(&Self, &Leaf) -> Option<T>,
    ) -> Option<Kept<T>> {
        if self.is_whole() {
            return leaf.derived(|leaf| make(self, leaf)).map(Kept::Whole);
        }
        let kept = leaf.derived(|leaf| {
            let shown = Self::new(self.envelope, true);
            let value = make(&shown, leaf)?;
            let left_out = shown.left_out();
            Some(WithoutManagedFields { value, left_out })
        })?;
        self.note_left_out(kept.left_out);
        Some(Kept::WithoutManagedFields(kept))
    }

    /// Returns what [`kept`](Self::kept) has made and the leaf keeps.
    pub(super) fn ready<T: Derived>(&self, leaf: &Leaf) -> Option<Kept<T>> {
        if self.is_whole() {
            return leaf.derived_if_ready().map(Kept::Whole);
        }
        let kept = leaf.derived_if_ready::<WithoutManagedFields<T>>()?;
        self.note_left_out(kept.left_out);
        Some(Kept::WithoutManagedFields(kept))
    }

    /// Tells whether [`kept`](Self::kept) would make something and the leaf keep it.
    pub(super) fn lacks<T: Derived>(&self, leaf: &Leaf) -> bool {
        match self.is_whole() {
            true => leaf.lacks::<T>(),
            false => leaf.lacks::<WithoutManagedFields<T>>(),
        }
    }
}

/// A value that was made of objects without managedFields.
pub(super) struct WithoutManagedFields<T> {
    value: T,
    left_out: usize,
}

impl<T: Derived> Derived for WithoutManagedFields<T> {
    fn size(&self) -> usize {
        self.value.size().saturating_add(size_of::<usize>())
    }
}

/// A value that a leaf keeps.
pub(super) enum Kept<T: Derived> {
    Whole(Arc<CountedValue<T>>),
    WithoutManagedFields(Arc<CountedValue<WithoutManagedFields<T>>>),
}

impl<T: Derived> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Whole(value) => value,
            Self::WithoutManagedFields(kept) => &kept.value,
        }
    }
}
