//! Makes the configured APIServices as objects. `newest.rs` adds them to those of
//! upstream.
//!
//! They are added to the state that answers a read, and not to the store. The
//! versions in the store are upstream's, but a change of a configured APIService has
//! no version. Watches of APIServices are in `overlay_watch.rs`.

use std::sync::Arc;

use apifront_watch_cache::store::{Store, StoredObject};
use kubernetes_wire::api::GroupVersionResource;

use crate::aggregation::api_service_objects;
use crate::server::state::generation::Generation;

/// Tells whether configured APIServices belong to the objects of a resource.
pub(super) fn is_for(generation: &Generation, gvr: &GroupVersionResource) -> bool {
    gvr.resource == api_service_objects::RESOURCE
        && gvr.group == api_service_objects::GROUP
        && gvr.version == "v1"
        && !generation.aggregation.is_empty()
}

/// Returns the configured APIServices as stored objects, with a version of upstream.
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
