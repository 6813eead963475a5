//! The changes that a new list makes to a store's state.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes_wire::representation::Envelope;

use super::object_tree::{Edit, ObjectTree};
use super::resync::{Found, difference};
use super::{ObjectKey, Snapshot, StoredObject};

/// The changes from the current state to a list.
pub(super) struct Replacement {
    /// The objects that the list adds, changes and removes.
    pub(super) edits: Vec<Edit>,
    /// The events that lead to the list. `None` if the list is not a later state of
    /// the same history.
    pub(super) found: Option<Vec<Found>>,
    /// An object looks different at the same resourceVersion.
    pub(super) changes_looks: bool,
}

impl Replacement {
    /// Compares the current state with the objects of a list made at `version`.
    pub(super) fn new(
        current: &Snapshot,
        listed: Vec<Arc<StoredObject>>,
        version: u64,
        envelope: &Envelope,
    ) -> Self {
        let (objects, seen) = (&current.objects, current.resource_version);
        let new = shared(objects, listed, envelope);
        let found = (seen <= version)
            .then(|| difference(objects, seen, &new, version))
            .flatten();
        let edits = edits(objects, new);
        let changes_looks = edits.iter().any(|edit| match edit {
            Edit::Put(object) => {
                let known = objects.get(object.key.as_str());
                known.is_some_and(|known| known.is_version_of(object))
            }
            Edit::Remove(_) => false,
        });
        Self {
            edits,
            found,
            changes_looks,
        }
    }
}

/// Returns the listed objects by key. Unchanged ones are those of the current state.
fn shared(
    current: &ObjectTree,
    listed: Vec<Arc<StoredObject>>,
    envelope: &Envelope,
) -> HashMap<ObjectKey, Arc<StoredObject>> {
    let listed = listed.into_iter().map(|listed| {
        let object = match current.get(listed.key.as_str()) {
            // The bytes are compared, too: a changed CustomResourceDefinition
            // changes the appearance of an object at the same version.
            Some(known) if known.is_same(&listed, envelope) => known.clone(),
            _ => listed,
        };
        (object.key.clone(), object)
    });
    listed.collect()
}

fn edits(current: &ObjectTree, new: HashMap<ObjectKey, Arc<StoredObject>>) -> Vec<Edit> {
    let gone = current.iter().filter(|o| !new.contains_key(&o.key));
    let mut edits: Vec<_> = gone.map(|o| Edit::Remove(o.key.clone())).collect();
    edits.extend(new.into_values().filter_map(|object| {
        let known = current.get(object.key.as_str());
        let same = known.is_some_and(|known| Arc::ptr_eq(known, &object));
        if same {
            return None;
        }
        // It leaves its buffer, because most objects there are dropped.
        object.leave();
        Some(Edit::Put(object))
    }));
    edits
}
