//! Approximate numbers of objects in namespaces, for the estimate that each list
//! makes. Counting takes as long as listing a few objects.

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

use super::{KeyScope, Snapshot};

/// The number of namespaces that are remembered. Each may evict one other, which is
/// then counted anew.
const REMEMBERED_NAMESPACES: usize = 64;

/// The number of versions for which a count is used. It is then wrong by at most as
/// many objects.
const MAX_COUNT_AGE_VERSIONS: u64 = 100;

pub(super) struct NamespaceCounts {
    hasher: RandomState,
    slots: Box<[Mutex<Option<Count>>]>,
}

struct Count {
    namespace: String,
    epoch: u64,
    version: u64,
    objects: usize,
}

impl NamespaceCounts {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            slots: (0..REMEMBERED_NAMESPACES)
                .map(|_| Mutex::default())
                .collect(),
        }
    }

    pub(super) fn about(&self, snapshot: &Snapshot, namespace: &str) -> usize {
        let slot = self.hasher.hash_one(namespace) as usize % REMEMBERED_NAMESPACES;
        // A reader does not wait for a busy slot.
        let mut slot = self.slots.get(slot).and_then(Mutex::try_lock);
        if let Some(Some(count)) = slot.as_deref()
            && count.namespace == namespace
            && count.epoch == snapshot.epoch
            && count.version.abs_diff(snapshot.resource_version) <= MAX_COUNT_AGE_VERSIONS
        {
            return count.objects;
        }
        let objects = snapshot.count_from(&KeyScope::Namespace(namespace.to_owned()), "");
        if let Some(slot) = slot.as_deref_mut() {
            *slot = Some(Count {
                namespace: namespace.to_owned(),
                epoch: snapshot.epoch,
                version: snapshot.resource_version,
                objects,
            });
        }
        objects
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use bytes::Bytes;

    use super::*;
    use crate::store::tests::resource;
    use crate::store::{Store, StoreWriter};

    fn store() -> (StoreWriter, Arc<Store>) {
        Store::new(resource(), Vec::new(), 1)
    }

    fn create(writer: &StoreWriter, namespace: &str, version: u64) {
        let item = format!(
            r#"{{"metadata":{{"name":"n{version}","namespace":"{namespace}","uid":"u",
            "resourceVersion":"{version}"}}}}"#
        );
        writer
            .apply(false, Bytes::from(item), Instant::now())
            .unwrap();
    }

    #[test]
    fn a_count_holds_for_some_versions() {
        let (writer, store) = store();
        let about = |namespace: &str| store.count_about(&store.snapshot(), namespace);
        create(&writer, "a", 2);
        assert_eq!((about("a"), about("b")), (1, 0));
        for version in 3..=2 + MAX_COUNT_AGE_VERSIONS {
            create(&writer, "b", version);
            assert_eq!(about("b"), 0);
        }
        create(&writer, "b", 3 + MAX_COUNT_AGE_VERSIONS);
        assert_eq!(
            (about("a"), about("b")),
            (1, MAX_COUNT_AGE_VERSIONS as usize + 1)
        );
    }

    #[test]
    fn namespaces_that_share_a_slot_are_told_apart() {
        let (writer, store) = store();
        let namespaces = 3 * REMEMBERED_NAMESPACES as u64;
        for version in 0..namespaces * 2 {
            create(&writer, &format!("n{}", version % namespaces), version + 2);
        }
        for namespace in (0..namespaces).chain(0..namespaces) {
            let namespace = format!("n{namespace}");
            assert_eq!(store.count_about(&store.snapshot(), &namespace), 2);
        }
    }
}
