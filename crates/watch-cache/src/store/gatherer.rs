//! Objects on their way into a new store.
//!
//! An object alone has its bytes in an allocation of their own. The allocator rounds
//! it up, and `Bytes` counts its holders in another allocation. For an object of 1
//! KB this is a fifth. Neighbours are read one after the other, so their bytes move
//! into one buffer while the rest of the list is still to come. Later, memory that
//! is freed piece by piece would stay with the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes_wire::representation::encoding::ITEM_PREFIX_MAX;

use super::buffer::Tally;
use super::join::join;
use super::{ObjectKey, StoredObject};

/// The most bytes that move into one buffer. The allocator has blocks of this size.
const GATHERED_BYTES: usize = 64 << 10;

/// Collects objects. Those that come in key order share buffers.
#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    gathered: Gathered,
    /// The number of objects that share buffers or never will.
    settled: usize,
    /// The bytes of the objects after them.
    apart: usize,
}

/// Objects for a new store, and the count of the memory they share.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(super) objects: Vec<Arc<StoredObject>>,
    pub(super) tally: Arc<Tally>,
}

impl FromIterator<StoredObject> for Gathered {
    /// Joins nothing: each object keeps its own bytes.
    fn from_iter<I: IntoIterator<Item = StoredObject>>(objects: I) -> Self {
        Self {
            objects: objects.into_iter().map(Arc::new).collect(),
            tally: Arc::default(),
        }
    }
}

impl Gathered {
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Replaces or removes objects, and adds those with other keys.
    pub(crate) fn replace(&mut self, by: BTreeMap<ObjectKey, Option<StoredObject>>) {
        self.objects.retain(|object| !by.contains_key(&object.key));
        let others = by.into_values().flatten();
        self.objects.extend(others.map(Arc::new));
    }
}

impl Gatherer {
    pub(crate) fn objects(&self) -> &[Arc<StoredObject>] {
        &self.gathered.objects
    }

    pub(crate) fn push(&mut self, object: StoredObject) {
        let own = object.at_hand(object.encoding());
        let bytes = own.map_or(0, |own| own.len().saturating_add(ITEM_PREFIX_MAX));
        let follows = self
            .objects()
            .last()
            .is_none_or(|last| last.key < object.key && last.encoding() == object.encoding());
        if !follows || self.apart.saturating_add(bytes) > GATHERED_BYTES {
            self.gather();
        }
        self.apart = self.apart.saturating_add(bytes);
        self.gathered.objects.push(Arc::new(object));
    }

    /// Returns all objects, in the order in which they came.
    pub(crate) fn finish(mut self) -> Gathered {
        self.gather();
        self.gathered
    }

    /// Moves the bytes of the last objects into one buffer.
    fn gather(&mut self) {
        self.apart = 0;
        let Gathered { objects, tally } = &self.gathered;
        let settled = std::mem::replace(&mut self.settled, objects.len());
        let Some(last @ [first, _, ..]) = objects.get(settled..) else {
            return;
        };
        let encoding = first.encoding();
        let items: Option<Vec<_>> = last.iter().map(|o| o.at_hand(encoding)).collect();
        if let Some(items) = items {
            join(last, &items, encoding, tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kubernetes_wire::representation::Encoding;

    use super::*;
    use crate::store::Store;
    use crate::store::buffer::Buffer;
    use crate::store::tests::resource;

    fn object(name: &str, length: usize) -> StoredObject {
        let data = "x".repeat(length);
        let item =
            format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"1"}},"data":"{data}"}}"#);
        StoredObject::parse(item.into(), &resource().fields).unwrap()
    }

    /// Returns the items of the objects, and the number of buffers.
    fn gathered(objects: Vec<StoredObject>) -> (Vec<Bytes>, Vec<usize>) {
        let mut gatherer = Gatherer::default();
        objects.into_iter().for_each(|object| gatherer.push(object));
        let gathered = gatherer.finish();
        let items = gathered.objects.iter();
        let items = items.map(|o| o.at_hand(Encoding::Json).unwrap()).collect();
        let mut in_buffers: Vec<(*const Buffer, usize)> = Vec::new();
        for object in &gathered.objects {
            let buffer = object
                .buffer()
                .map_or(std::ptr::null(), |b| Arc::as_ptr(&b));
            match in_buffers.last_mut() {
                Some((last, count)) if *last == buffer => *count += 1,
                _ => in_buffers.push((buffer, 1)),
            }
        }
        let counts = in_buffers.into_iter();
        (items, counts.map(|(_, count)| count).collect())
    }

    #[test]
    fn neighbours_share_buffers() {
        let names = |names: &[&str]| names.iter().map(|n| object(n, 20_000)).collect();
        let (items, shared) = gathered(names(&["a", "b", "c", "d", "e"]));
        assert_eq!(shared, [3, 2]);
        let alone: Vec<StoredObject> = names(&["a", "b", "c", "d", "e"]);
        let alone: Vec<_> = alone
            .iter()
            .map(|o| o.at_hand(Encoding::Json).unwrap())
            .collect();
        assert_eq!(items, alone);
        // Objects out of order share no buffer with those before them.
        assert_eq!(gathered(names(&["c", "d", "a", "b", "b"])).1, [2, 2, 1]);
        assert_eq!(gathered(names(&[])).1, [0; 0]);
        let (_, large) = gathered(vec![object("a", 9), object("b", 100_000), object("c", 9)]);
        assert_eq!(large, [3], "none of them shares");
    }

    #[test]
    fn a_store_counts_what_is_left_in_buffers() {
        let mut gatherer = Gatherer::default();
        let names = || (0..9).map(|n| format!("n{n}"));
        names().for_each(|name| gatherer.push(object(&name, 1_000)));
        let (writer, store) = Store::from_gathered(resource(), gatherer.finish(), 5);
        let filled = store.memory();
        let now = std::time::Instant::now();
        for (version, name) in (10..).zip(names().take(4)) {
            let mut object = object(&name, 1_000);
            object.resource_version = version;
            writer.apply_object(false, object, now);
        }
        let held = store.memory();
        let left = held.objects - filled.objects;
        assert!((4_000..5_000).contains(&left), "{filled:?} {held:?}");
        // The rest leaves a buffer of which less than half is used.
        let mut object = object("n4", 1_000);
        object.resource_version = 20;
        writer.apply_object(false, object, now);
        let snapshot = store.snapshot();
        assert!(names().all(|n| snapshot.get("", &n).unwrap().buffer().is_none()));
        assert_eq!(store.memory().objects, filled.objects);
    }
}
