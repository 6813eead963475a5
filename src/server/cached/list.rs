//! LIST from a store.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::api::ListOptions;
use crate::read::{self, BypassReason, ListPlan, ListVersion, Selection, Shape};
use crate::store::{Snapshot, Store};

/// The body, and the version it is of. `newest` has been found recent enough
/// for the plan.
pub(super) fn list(
    namespace: &str,
    options: ListOptions,
    plan: &ListPlan,
    store: &Store,
    newest: Arc<Snapshot>,
    shape: &Shape,
) -> Result<(Vec<Bytes>, u64), BypassReason> {
    let selection = Selection::new(namespace, options, plan, &store.resource)?;
    let snapshot = match plan.version {
        ListVersion::Newest(_) => newest,
        ListVersion::Exact(version) => store
            .snapshot_at(version)
            .ok_or(BypassReason::SnapshotGone)?,
    };
    let page = read::page(&snapshot, &selection, plan);
    let body = read::list_body(&store.resource, &page, shape)?;
    if !page.meta.continue_token.is_empty() {
        // Its holder will be back for the rest of this very state.
        store.retain(&snapshot, Instant::now());
    }
    Ok((body, snapshot.resource_version))
}
