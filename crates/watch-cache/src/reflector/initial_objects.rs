//! Collects the objects of initial events, which need not come in key order.

use std::collections::BTreeMap;

use crate::store::{Gathered, Gatherer, ObjectKey, StoredObject};

/// The objects of initial events. They usually come in key order, as in a list.
/// A server whose cache is behind also sends the changes with which it catches
/// up, including deletions. A server may also send objects in any order.
#[derive(Default)]
pub(super) struct InitialObjects {
    in_order: Gatherer,
    /// The last state of each object that came after the key order broke.
    /// `None` if it was deleted.
    later: BTreeMap<ObjectKey, Option<StoredObject>>,
    count: usize,
}

impl InitialObjects {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds or replaces an object. Returns the size of the replaced object.
    pub(super) fn put(&mut self, object: StoredObject) -> usize {
        let last = self.in_order.objects().last();
        if last.is_none_or(|last| last.key < object.key) && self.later.is_empty() {
            self.count = self.count.saturating_add(1);
            self.in_order.push(object);
            return 0;
        }
        let before = self.size_of(&object.key);
        if before.is_none() {
            self.count = self.count.saturating_add(1);
        }
        self.later.insert(object.key.clone(), Some(object));
        before.unwrap_or(0)
    }

    /// Removes an object, if it is there. Returns its size.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> usize {
        let Some(before) = self.size_of(key) else {
            return 0;
        };
        self.count = self.count.saturating_sub(1);
        self.later.insert(key.clone(), None);
        before
    }

    fn size_of(&self, key: &ObjectKey) -> Option<usize> {
        if let Some(later) = self.later.get(key) {
            return later.as_ref().map(StoredObject::size);
        }
        let in_order = self.in_order.objects();
        let at = in_order.binary_search_by(|o| o.key.cmp(key)).ok()?;
        in_order.get(at).map(|object| object.size())
    }

    pub(super) fn finish(self) -> Gathered {
        let mut gathered = self.in_order.finish();
        gathered.replace(self.later);
        gathered
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kubernetes_wire::representation::Encoding;
    use proptest::prelude::*;

    use super::*;
    use crate::store::{KeyScope, Store, tests::resource};

    fn object(key: &str, version: u64) -> StoredObject {
        let padding = "x".repeat(usize::try_from(version % 7).unwrap() * 9_000);
        let item = format!(
            r#"{{"metadata":{{"name":"{key}","resourceVersion":"{version}"}},"data":"{padding}"}}"#
        );
        StoredObject::parse(Bytes::from(item), &resource().fields).unwrap()
    }

    proptest! {
        #[test]
        fn they_end_up_as_in_a_map(events in prop::collection::vec(("[a-d]{1,2}", 1..5_u8), 0..60)) {
            let (mut objects, mut expected) = (InitialObjects::default(), BTreeMap::new());
            let mut held = 0;
            for (version, (key, what)) in (1..).zip(events) {
                if what == 1 {
                    held -= objects.remove(&ObjectKey::new("", &key));
                    expected.remove(&key);
                } else {
                    let object = object(&key, version);
                    held += object.size();
                    held -= objects.put(object);
                    expected.insert(key, version);
                }
                prop_assert_eq!(objects.len(), expected.len());
            }
            let (_, store) = Store::from_gathered(resource(), objects.finish(), 100);
            let snapshot = store.snapshot();
            let found: Vec<_> = snapshot.iter(&KeyScope::All).cloned().collect();
            let told = found.iter().map(|o| (o.key.as_str().to_owned(), o.resource_version));
            prop_assert_eq!(told.collect::<BTreeMap<_, _>>(), expected);
            prop_assert_eq!(found.iter().map(|o| o.size()).sum::<usize>(), held);
            for found in &found {
                let again = object(found.key.as_str(), found.resource_version);
                let [found, again] = [&**found, &again].map(|o| o.item(Encoding::Json, &resource().envelope));
                prop_assert_eq!(found, again);
            }
        }
    }
}
