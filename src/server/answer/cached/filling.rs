//! How long a read waits for a resource that is being listed for the first time, before
//! it is forwarded (`filling`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::read::{BypassReason, Freshness};
use apifront_watch_cache::reflector::{Entry, Unavailable};
use kubernetes_wire::api::GroupVersionResource;

use super::plan::Plan;
use super::{overlay, sharded};
use crate::server::stage::Identified;

/// How long a watch waits for the first list of its resource before it is forwarded.
/// kube-apiserver's cache waits 3 s.
pub(super) const WATCH_WAITS: Duration = Duration::from_secs(2);

/// The same for a watch with initial events. Forwarded, it would be a whole list for
/// upstream, or be refused where upstream has no initial events.
pub(super) const WATCH_LIST_WAITS: Duration = Duration::from_secs(8);

/// How long a list of any state, such as an informer's first list, waits for the
/// first list of its resource. Most resources are small, and are listed in
/// milliseconds.
pub(super) const LIST_WAITS: Duration = Duration::from_millis(500);

/// If upstream has no initial events: how long a watch with initial events waits
/// until the form of bookmarks is known. If it were forwarded, it would be refused,
/// and client-go would not try again. Upstream usually sends a bookmark within seconds
/// of the list; this is longer than all attempts take.
pub(super) const BOOKMARK_WAITS: Duration = Duration::from_secs(30);

/// Returns how long the read waits while the resource is read into the cache, before
/// the read is forwarded.
pub(super) fn waits(identified: &Identified, gvr: &GroupVersionResource, plan: &Plan) -> Duration {
    match plan {
        Plan::Watch(options, _) if options.send_initial_events == Some(true) => WATCH_LIST_WAITS,
        // A forwarded watch would stay with upstream until its end.
        Plan::Watch(..) => WATCH_WAITS,
        Plan::List(..) if plan.is_of_shard() && sharded::is_always_served(identified) => {
            WATCH_WAITS
        }
        // Upstream does not know the configured APIServices.
        Plan::Get(_) | Plan::List(..) if overlay::is_for(identified.generation(), gvr) => {
            WATCH_WAITS
        }
        // The watch after a forwarded list might begin before the cache does.
        Plan::List(..) if plan.freshness() == Freshness::Any && !plan.is_exact() => LIST_WAITS,
        Plan::Get(_) | Plan::List(..) => Duration::ZERO,
    }
}

/// Finds the resource in the cache. Waits for it for at most `waits`.
pub(super) async fn find(
    identified: &Identified,
    gvr: &GroupVersionResource,
    waits: Duration,
) -> Result<Arc<Entry>, BypassReason> {
    let generation = identified.generation();
    let selection = generation.settings.as_ref();
    let began = Instant::now();
    let found = generation.cache.lookup_located(gvr, selection, WATCH_WAITS);
    let found = found.await;
    let longest = waits.max(WATCH_WAITS);
    let left = waits.min(longest.saturating_sub(began.elapsed()));
    if left.is_zero() || found.as_ref().err() != Some(&Unavailable::Filling) {
        return Ok(found?);
    }
    Ok(generation.cache.lookup_within(gvr, selection, left).await?)
}
