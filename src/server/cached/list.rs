//! LIST from a store.

use bytes::Bytes;

use super::filter;
use crate::api::ListOptions;
use crate::read::{self, BypassReason, Shape};
use crate::store::Store;

pub(super) fn list(
    namespace: &str,
    options: ListOptions,
    plan: read::ListPlan,
    store: &Store,
    shape: &Shape,
) -> Result<Vec<Bytes>, BypassReason> {
    let filter = filter(namespace, options, store)?;
    let snapshot = store.snapshot();
    let (objects, cut) = read::select(&snapshot, &filter, plan.limit);
    if cut {
        return Err(BypassReason::Chunked);
    }
    read::list_body(&store.resource, snapshot.resource_version, &objects, shape)
}
