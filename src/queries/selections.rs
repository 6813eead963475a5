//! What a query selects from: lists of one resource, each as its caller may see it.

use std::sync::Arc;

use apifront_watch_cache::read::{self, ListPlan, Selection};
use apifront_watch_cache::store::{Snapshot, StoredObject, Visible};
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::Envelope;

use super::object::QueriedObject;

/// What tells selections apart. Who has equal ones sees the same objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectionsKey {
    pub gvr: GroupVersionResource,
    pub label_selector: String,
    pub field_selector: String,
    /// The namespace of each list, and what is visible of it if that is not all.
    pub lists: Vec<(String, Option<Visible>)>,
}

pub struct Selections {
    pub key: SelectionsKey,
    /// The lists, in the order of their namespaces.
    pub lists: Vec<(Selection, ListPlan)>,
}

impl Selections {
    /// Returns the objects in the order of lists.
    pub fn objects<'s>(
        &self,
        snapshot: &'s Snapshot,
        envelope: &Arc<Envelope>,
    ) -> impl Iterator<Item = QueriedObject> + use<'s> {
        let mut all: Vec<&'s Arc<StoredObject>> = Vec::new();
        for (selection, plan) in &self.lists {
            all.extend(read::page(snapshot, selection, plan).objects());
        }
        let envelope = envelope.clone();
        all.into_iter().map(move |object| QueriedObject {
            object: object.clone(),
            envelope: envelope.clone(),
        })
    }

    pub(super) fn selects(&self, object: &StoredObject) -> bool {
        self.lists.iter().any(|(list, _)| list.selects(object))
    }
}
