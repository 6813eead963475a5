//! Configured APIServices among those of upstream.
//!
//! They are laid over the state that answers, and not put into the store: its
//! versions are upstream's, and a change of theirs has none. Watches of them are
//! in `overlay_watch.rs`.

use std::sync::Arc;

use apifront_watch_cache::store::{Store, StoredObject};
use kubernetes_wire::api::GroupVersionResource;

use crate::aggregation::api_service_objects;
use crate::server::state::generation::Generation;

/// Whether configured APIServices stand among the objects of a resource.
pub(super) fn is_for(generation: &Generation, gvr: &GroupVersionResource) -> bool {
    gvr.resource == api_service_objects::RESOURCE
        && gvr.group == api_service_objects::GROUP
        && gvr.version == "v1"
        && !generation.aggregation.is_empty()
}

/// The configured APIServices as objects of the store, at a version of upstream.
pub(super) fn objects(
    generation: &Generation,
    store: &Store,
    version: u64,
) -> Vec<Arc<StoredObject>> {
    let registered = generation.aggregation.registered().iter();
    registered
        .filter_map(|ours| {
            let item =
                api_service_objects::item(&ours.service, &ours.condition(), ours.loaded, version);
            let object = StoredObject::parse(item, &store.resource.fields);
            object
                .map(Arc::new)
                .inspect_err(|error| tracing::warn!(%error, "an APIService cannot be shown"))
                .ok()
        })
        .collect()
}
