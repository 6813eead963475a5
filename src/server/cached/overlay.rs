//! Configured APIServices among those of upstream.
//!
//! They are laid over the state that answers, and not put into the store: its
//! versions are upstream's, and a change of theirs has none. Watches of them are
//! in `overlay_watch.rs`.

use std::sync::Arc;

use apifront_watch_cache::store::{Store, StoredObject};
use kubernetes_wire::api::GroupVersionResource;

use super::newest::Newest;
use crate::aggregation::api_service_objects;
use crate::server::front::Front;

pub(super) fn is_for(front: &Front, gvr: &GroupVersionResource) -> bool {
    gvr.resource == api_service_objects::RESOURCE
        && gvr.group == api_service_objects::GROUP
        && gvr.version == "v1"
        && !front.aggregation.is_empty()
}

pub(super) fn apply(front: &Front, store: &Store, newest: Newest) -> Newest {
    if !is_for(front, &store.resource.gvr) {
        return newest;
    }
    let Newest::State { snapshot, complete } = newest else {
        return newest;
    };
    let version = snapshot.resource_version;
    let ours = front.aggregation.registered().iter().filter_map(|ours| {
        let item =
            api_service_objects::item(&ours.service, &ours.condition(), ours.loaded, version);
        let object = StoredObject::parse(item, &store.resource.fields);
        object
            .map(Arc::new)
            .inspect_err(|error| tracing::warn!(%error, "an APIService cannot be shown"))
            .ok()
    });
    Newest::State {
        snapshot: Arc::new(snapshot.with(version, ours.collect(), Vec::new())),
        complete,
    }
}
