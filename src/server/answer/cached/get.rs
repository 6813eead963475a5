//! Answers GET from a store.

use std::sync::Arc;

use apifront_watch_cache::read::{self, BypassReason, Shape};
use apifront_watch_cache::store::{Store, StoredObject};
use bytes::Bytes;

use super::listing::WRITTEN_AT_ONCE;
use crate::server::offload::{OffloadRefusal, OffloadUser};

/// Makes the body. A large object is written where it delays no other request.
pub(super) async fn body(
    store: &Arc<Store>,
    object: Arc<StoredObject>,
    shape: Shape,
    by: OffloadUser<'_>,
) -> Result<Bytes, OffloadRefusal> {
    if read::bytes_to_make(&object, &store.resource, &shape) <= WRITTEN_AT_ONCE {
        return Ok(read::get_body(store, &object, &shape)?);
    }
    let store = store.clone();
    let make = move || read::get_body(&store, &object, &shape);
    let made = by.run(make).await?;
    Ok(made.ok_or(BypassReason::Representation)??)
}
