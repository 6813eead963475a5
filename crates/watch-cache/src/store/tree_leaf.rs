//! Some dozens of neighbouring objects, and the values made from them together.
//!
//! A leaf never changes: a change of one of its objects makes another leaf. A
//! value that lists need of all its objects is made once and kept in the leaf.
//!
//! One rule keeps memory near that of the objects alone: *only leaves of the
//! state that the store publishes are joined*. The writer retires a leaf before
//! it publishes the leaf that takes its place. Therefore an object of the
//! current state has its bytes in at most one buffer per encoding, and an
//! object that has left the state is not joined again.

use std::any::{Any, TypeId};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kubernetes_wire::representation::{Encoding, Envelope};
use parking_lot::Mutex;

use super::StoredObject;
use super::buffer::Tally;
use super::demanded_forms::KEPT_ROUNDS;
use super::field_digest::FieldDigest;
use super::join::join;

/// Leaves of more bytes are not joined. A list copies their few large objects
/// one by one at little cost, and a joined copy would be one large allocation.
pub(crate) const JOINED_MAX_BYTES: usize = 8 << 20;

/// The states that a leaf is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lineage {
    /// The states that the store publishes.
    Main,
    /// A state that the store does not publish, but that shares objects with those
    /// that it does.
    Aside,
}

/// Neighbouring objects in key order; never empty.
pub struct Leaf {
    objects: Box<[Arc<StoredObject>]>,
    memos: Mutex<Memos>,
    /// Lists look at it in every leaf, so it needs no lock. It is small, and stays.
    digest: OnceLock<Box<CountedValue<FieldDigest>>>,
    tally: Arc<Tally>,
}

#[derive(Default)]
struct Memos {
    /// The leaf is not in the current state. Nothing is kept in it.
    retired: bool,
    /// The joined items, by encoding. The objects' bytes are slices of them.
    joined: [Joined; 2],
    /// The derived values, of which there are few.
    derived: Vec<Memo>,
}

#[derive(Default)]
struct Joined {
    items: Option<Bytes>,
    /// The rounds since they were last used.
    unused: u8,
}

impl Memos {
    fn take_joined(&mut self, encoding: Encoding) -> Option<Bytes> {
        self.joined.get_mut(encoding as usize)?.items.take()
    }

    /// Returns the slot of a derived value, and counts it as used now.
    fn find<T: Derived>(&mut self) -> Option<Arc<SlotOf<T>>> {
        let id = TypeId::of::<T>();
        let memo = self.derived.iter_mut().find(|memo| memo.of == id)?;
        memo.unused = 0;
        memo.slot.clone().downcast().ok()
    }
}

struct Memo {
    of: TypeId,
    replaced_by: Option<Encoding>,
    slot: Arc<dyn Any + Send + Sync>,
    /// The rounds since it was last used.
    unused: u8,
}

/// A value made from a leaf's objects that can be made again.
pub trait Derived: Send + Sync + 'static {
    /// The encoding whose joined items make this value useless once they exist.
    const REPLACED_BY: Option<Encoding> = None;

    /// Returns the bytes that the value holds on to, roughly.
    fn size(&self) -> usize;
}

/// A derived value, counted as long as anyone holds it.
pub struct CountedValue<T: Derived> {
    value: T,
    tally: Arc<Tally>,
}

impl<T: Derived> CountedValue<T> {
    fn new(value: T, tally: &Arc<Tally>) -> Self {
        tally.derived.fetch_add(value.size(), Ordering::Relaxed);
        let tally = tally.clone();
        Self { value, tally }
    }
}

impl<T: Derived> Deref for CountedValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Derived> Drop for CountedValue<T> {
    fn drop(&mut self) {
        let size = self.value.size();
        self.tally.derived.fetch_sub(size, Ordering::Relaxed);
    }
}

/// The place where a leaf keeps a derived value. It holds `None` if the value
/// cannot be made.
type SlotOf<T> = OnceLock<Option<Arc<CountedValue<T>>>>;

impl Leaf {
    /// Makes a leaf. `objects` are in key order and not empty.
    pub(super) fn new(
        objects: Box<[Arc<StoredObject>]>,
        lineage: Lineage,
        tally: &Arc<Tally>,
    ) -> Arc<Self> {
        let memos = Memos {
            retired: lineage == Lineage::Aside,
            ..Memos::default()
        };
        Arc::new(Self {
            objects,
            memos: Mutex::new(memos),
            digest: OnceLock::new(),
            tally: tally.clone(),
        })
    }

    pub fn objects(&self) -> &[Arc<StoredObject>] {
        &self.objects
    }

    /// Returns the digest of a column's values, which is the same one for all callers. It
    /// is made once while the leaf is current. `None` if the leaf is not.
    pub(super) fn digest(&self, column: usize) -> Option<&FieldDigest> {
        let made = self.digest.get();
        if made.is_none() && self.memos.lock().retired {
            return None;
        }
        let digest = made.unwrap_or_else(|| {
            self.digest.get_or_init(|| {
                let digest = FieldDigest::new(&self.objects, column);
                Box::new(CountedValue::new(digest, &self.tally))
            })
        });
        Some(digest)
    }

    /// Returns the digest if it was made.
    pub(super) fn digest_if_ready(&self) -> Option<&FieldDigest> {
        self.digest.get().map(|digest| &***digest)
    }

    /// Returns the items of all objects as they stand in a list: JSON with a comma
    /// before each, protobuf with the key of `items` and a length. `None` if the
    /// leaf is not in the current state, if it is very large, or if an object cannot
    /// be written in the encoding. The caller then copies items one by one.
    ///
    /// The first reader does the work, and concurrent readers wait for it here.
    pub fn joined(&self, encoding: Encoding, envelope: &Envelope) -> Option<Bytes> {
        self.tally.unasked.get(encoding as usize)?.ask();
        let mut memos = self.memos.lock();
        let Memos {
            retired,
            joined: kept,
            derived: values,
        } = &mut *memos;
        let kept = kept.get_mut(encoding as usize)?;
        kept.unused = 0;
        if *retired || kept.items.is_some() {
            return kept.items.clone();
        }
        let items = self.objects.iter().map(|o| o.item(encoding, envelope));
        let items = items.collect::<Option<Vec<Bytes>>>()?;
        let length: usize = items.iter().map(Bytes::len).sum();
        if length > JOINED_MAX_BYTES {
            return None;
        }
        let joined = join(&self.objects, &items, encoding, &self.tally)?;
        kept.items = Some(joined.clone());
        values.retain(|memo| memo.replaced_by != Some(encoding));
        Some(joined)
    }

    /// Tells whether [`joined`](Self::joined) has work to do.
    pub(crate) fn is_unjoined(&self, encoding: Encoding) -> bool {
        let memos = self.memos.lock();
        let joined = memos.joined.get(encoding as usize);
        !memos.retired && joined.is_some_and(|joined| joined.items.is_none())
    }

    /// Returns the bytes of the objects that a list has to write, in
    /// [`joined`](Self::joined) or one by one.
    pub(crate) fn bytes_to_join(&self, encoding: Encoding) -> usize {
        if self.is_unjoined(encoding) {
            let all: usize = self.objects.iter().map(|object| object.size()).sum();
            if all <= JOINED_MAX_BYTES {
                return all;
            }
        }
        let is_written = |object: &&Arc<StoredObject>| object.at_hand(encoding).is_none();
        let written = self.objects.iter().filter(is_written);
        written.map(|object| object.size()).sum()
    }

    /// Tells whether [`derived`](Self::derived) would make a value and keep it.
    pub(crate) fn lacks<T: Derived>(&self) -> bool {
        let memos = self.memos.lock();
        let id = TypeId::of::<T>();
        let memo = memos.derived.iter().find(|memo| memo.of == id);
        let slot = memo.and_then(|memo| memo.slot.downcast_ref::<SlotOf<T>>());
        !memos.retired && slot.is_none_or(|slot| slot.get().is_none())
    }

    /// Returns the value that `make` makes of the objects. It is made once
    /// while the leaf is current and memory is not short. A failure (`None`) is
    /// remembered too.
    pub fn derived<T: Derived>(
        &self,
        make: impl FnOnce(&Self) -> Option<T>,
    ) -> Option<Arc<CountedValue<T>>> {
        let make = || {
            let value = make(self)?;
            Some(Arc::new(CountedValue::new(value, &self.tally)))
        };
        // The value is made outside the lock: that may take long, and only
        // readers of the same value need to wait.
        match self.slot::<T>() {
            Some(slot) => slot.get_or_init(make).clone(),
            None => make(),
        }
    }

    /// Returns the value that [`derived`](Self::derived) has made and kept.
    /// Makes nothing and does not wait.
    pub(crate) fn derived_if_ready<T: Derived>(&self) -> Option<Arc<CountedValue<T>>> {
        let slot = self.memos.lock().find::<T>()?;
        slot.get().cloned().flatten()
    }

    fn slot<T: Derived>(&self) -> Option<Arc<SlotOf<T>>> {
        let mut memos = self.memos.lock();
        if memos.retired {
            return None;
        }
        if let Some(slot) = memos.find::<T>() {
            return Some(slot);
        }
        let slot = Arc::new(OnceLock::new());
        memos.derived.push(Memo {
            of: TypeId::of::<T>(),
            replaced_by: T::REPLACED_BY,
            slot: slot.clone(),
            unused: 0,
        });
        Some(slot)
    }

    /// Drops the values that can be made again. Joined items in the encoding in
    /// which objects came stay: they are the only copy of the objects' bytes.
    pub(super) fn shed(&self) {
        let mut memos = self.memos.lock();
        let derived = std::mem::take(&mut memos.derived);
        let joined = self.made().map(|encoding| memos.take_joined(encoding));
        let joined: Vec<_> = joined.collect();
        drop(memos);
        self.shed_objects();
        drop((derived, joined));
    }

    /// Counts a round, and drops the values that nobody used for
    /// [`KEPT_ROUNDS`].
    pub(super) fn shed_unused(&self) {
        let mut memos = self.memos.lock();
        let is_unused = |unused: &mut u8| {
            *unused = unused.saturating_add(1);
            *unused == KEPT_ROUNDS
        };
        let derived: Vec<_> = memos
            .derived
            .extract_if(.., |memo| is_unused(&mut memo.unused))
            .collect();
        let joined = self.made().filter_map(|encoding| {
            let kept = memos.joined.get_mut(encoding as usize)?;
            is_unused(&mut kept.unused).then(|| kept.items.take())?
        });
        let joined: Vec<_> = joined.collect();
        drop(memos);
        if !joined.is_empty() {
            self.shed_objects();
        }
        drop((derived, joined));
    }

    /// Drops the bytes of single objects that were made in this encoding.
    pub(super) fn shed_objects_in(&self, encoding: Encoding) {
        let made = self.objects.iter().filter(|o| o.encoding() != encoding);
        made.for_each(|o| o.shed());
    }

    /// Returns the encodings in which no object came.
    fn made(&self) -> impl Iterator<Item = Encoding> {
        let came = |encoding: &Encoding| self.objects.iter().any(|o| o.encoding() == *encoding);
        Encoding::ALL.into_iter().filter(move |e| !came(e))
    }

    /// Drops the bytes of single objects that can be made again.
    fn shed_objects(&self) {
        self.objects.iter().for_each(|o| o.shed());
    }

    /// Drops everything that is kept: another leaf is about to take this leaf's
    /// place. From now on the leaf is not joined.
    pub(super) fn retire(&self) {
        let before = std::mem::replace(
            &mut *self.memos.lock(),
            Memos {
                retired: true,
                ..Memos::default()
            },
        );
        drop(before);
    }
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.objects.iter().map(|o| &o.key))
            .finish()
    }
}
