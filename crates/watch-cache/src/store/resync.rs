//! The difference between the cached state and a fresh list, as events.
//!
//! When upstream's history is lost, watchers stay connected: they get each change
//! once, in version order. The versions of deletions are not known any more, so each
//! deletion gets a version that no listed object has. There are enough between the
//! last seen version and the list's, because upstream gives each change its own. The
//! lowest are taken: a client that goes on at the API server itself then sees a
//! deletion twice rather than never.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::object_tree::ObjectTree;
use super::{Change, ObjectKey, StoredObject};

/// A change found by comparing. For a deletion, `object` is the last state.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) change: Change,
    pub(super) resource_version: u64,
    pub(super) object: Arc<StoredObject>,
    pub(super) previous: Option<Arc<StoredObject>>,
}

/// Returns the events that lead from `old`, last seen at `seen`, to `new`,
/// listed at `listed`. Their versions strictly increase, above `seen` and up to
/// `listed`. `None` if that is impossible: `new` is not a later state of the
/// same history, because upstream was restored from a backup, for example.
pub(super) fn difference(
    old: &ObjectTree,
    seen: u64,
    new: &HashMap<ObjectKey, Arc<StoredObject>>,
    listed: u64,
) -> Option<Vec<Found>> {
    let mut found = Vec::new();
    // Each deletion, with the version that it must precede. This is the version of
    // the new object if the name was taken again.
    let mut deleted: Vec<(u64, Arc<StoredObject>)> = Vec::new();
    let mut used = BTreeSet::new();

    for (key, object) in new {
        let before = old.get(key.as_str());
        let (change, previous) = match before {
            Some(b) if b.resource_version == object.resource_version && b.uid() == object.uid() => {
                continue;
            }
            Some(b) if b.uid() != object.uid() => {
                deleted.push((object.resource_version, b.clone()));
                (Change::Added, None)
            }
            Some(b) => (Change::Modified, Some(b.clone())),
            None => (Change::Added, None),
        };
        used.insert(object.resource_version);
        found.push(Found {
            change,
            resource_version: object.resource_version,
            object: object.clone(),
            previous,
        });
    }
    for object in old.iter() {
        if !new.contains_key(&object.key) {
            deleted.push((u64::MAX, object.clone()));
        }
    }

    deleted.sort_by(|a, b| (a.0, &a.1.key).cmp(&(b.0, &b.1.key)));
    let mut free = seen;
    for (before, object) in deleted {
        free = free.checked_add(1)?;
        while used.contains(&free) {
            free = free.checked_add(1)?;
        }
        if free >= before {
            return None;
        }
        found.push(Found {
            change: Change::Deleted,
            resource_version: free,
            previous: Some(object.clone()),
            object,
        });
    }
    found.sort_unstable_by_key(|f| f.resource_version);
    let versions = || found.iter().map(|f| f.resource_version);
    let ordered = std::iter::once(seen)
        .chain(versions())
        .zip(versions())
        .all(|(earlier, later)| earlier < later);
    let within = found.last().is_none_or(|f| f.resource_version <= listed);
    (ordered && within).then_some(found)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kubernetes_wire::api::GroupVersionResource;

    use super::*;
    use crate::store::field_table;
    use crate::store::tree_leaf::Lineage;

    /// Parses `name uid version`.
    fn object(text: &str) -> (ObjectKey, Arc<StoredObject>) {
        let [name, uid, version] = text.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{text}");
        };
        let item = format!(
            r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        let fields = field_table(&GroupVersionResource::new("", "v1", "nodes"));
        let object = StoredObject::parse(Bytes::from(item), &fields).unwrap();
        (object.key.clone(), Arc::new(object))
    }

    fn found(old: &[&str], seen: u64, new: &[&str], listed: u64) -> Option<Vec<String>> {
        let old = old.iter().map(|text| object(text).1).collect();
        let old = ObjectTree::new(old, Arc::default(), Lineage::Main);
        let new = new.iter().copied().map(object).collect();
        let found = difference(&old, seen, &new, listed)?;
        let told = |f: &Found| {
            format!(
                "{:?} {} {}",
                f.change,
                f.object.key.as_str(),
                f.resource_version
            )
        };
        Some(found.iter().map(told).collect())
    }

    #[test]
    fn differences_are_told_in_order() {
        for (old, new, expected) in [
            (&["a 1 5"][..], &["a 1 5"][..], &[][..]),
            (&[], &["a 1 12"], &["Added a 12"]),
            (&["a 1 5"], &["a 1 12"], &["Modified a 12"]),
            (&["a 1 5"], &[], &["Deleted a 11"]),
            // Deletions get distinct versions that no listed object has.
            (
                &["a 1 5", "b 2 6", "c 3 7"],
                &["d 4 11", "e 5 13"],
                &[
                    "Added d 11",
                    "Deleted a 12",
                    "Added e 13",
                    "Deleted b 14",
                    "Deleted c 15",
                ],
            ),
            // A deletion precedes the creation that takes its name again,
            // whatever the order of the keys.
            (
                &["a 1 5", "z 2 6"],
                &["z 3 12"],
                &["Deleted z 11", "Added z 12", "Deleted a 13"],
            ),
        ] {
            let told = found(old, 10, new, 20).unwrap();
            assert_eq!(told, expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn what_is_no_later_state_has_no_difference() {
        for (old, seen, new, listed) in [
            // The object is older than the one seen.
            (&["a 1 9"][..], 10, &["a 1 8"][..], 20),
            (&[], 10, &["a 1 10"], 20),
            // The object is newer than the list.
            (&[], 10, &["a 1 21"], 20),
            // Another object has the same version.
            (&["a 1 9"], 10, &["a 2 9"], 20),
            // No version is left for a deletion.
            (&["a 1 9"], 10, &[], 10),
            (&["a 1 9"], 10, &["a 2 11"], 20),
            (&["a 1 9", "b 2 8"], 10, &[], 11),
            (&["a 1 9"], u64::MAX, &[], u64::MAX),
            // Two changes cannot have one version.
            (&[], 10, &["a 1 12", "b 2 12"], 20),
        ] {
            assert_eq!(found(old, seen, new, listed), None, "{old:?} {new:?}");
        }
    }
}
