//! Is the cache recent enough for this request?

use std::time::{Duration, Instant};

use super::{BypassReason, Freshness};
use crate::config::Consistency;
use crate::reflector::{Cache, Entry};
use crate::store::Store;

/// How long a request for a version the cache is about to reach may wait
/// before upstream is asked instead. kube-apiserver waits 3 s for the same.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Events of writes that were acknowledged before a proof began can arrive on
/// the main watch after it: up to 27 ms late in measurements under load.
const SETTLE: Duration = Duration::from_millis(30);

/// Waits until the store can answer, or says why it cannot.
pub async fn ensure(
    freshness: Freshness,
    cache: &Cache,
    entry: &Entry,
    store: &Store,
    mode: Consistency,
    max_staleness: Duration,
) -> Result<(), BypassReason> {
    if entry.disconnected_for(Instant::now()) > max_staleness {
        return Err(BypassReason::Stale);
    }
    match freshness {
        Freshness::Any => Ok(()),
        Freshness::NotOlderThan(version) => reached(store, version, CATCH_UP)
            .await
            .then_some(())
            .ok_or(BypassReason::FutureVersion),
        Freshness::MostRecent => match mode {
            Consistency::Strict => Err(BypassReason::MostRecent),
            Consistency::Fresh => prove(cache, entry, store).await,
            Consistency::Bounded => {
                if entry.proven_within(max_staleness, Instant::now()) {
                    Ok(())
                } else {
                    prove(cache, entry, store).await
                }
            }
        },
    }
}

/// Asks upstream for its version and waits for the store to be there. One
/// question at a time serves everybody who came before it was asked.
async fn prove(cache: &Cache, entry: &Entry, store: &Store) -> Result<(), BypassReason> {
    let version = entry
        .proof(|| cache.current_version(&entry.gvr))
        .await
        .ok_or(BypassReason::NotProvenFresh)?;
    if store.progress().resource_version < version {
        // Nothing of this resource may have changed since: then the main watch
        // stays silent, and settling is all there is to wait for.
        let arrived = reached(store, version, SETTLE).await;
        if !arrived && entry.disconnected_for(Instant::now()) > Duration::ZERO {
            return Err(BypassReason::NotProvenFresh);
        }
    }
    Ok(())
}

async fn reached(store: &Store, version: u64, within: Duration) -> bool {
    let mut progress = store.subscribe();
    let wait = progress.wait_for(|p| p.closed || p.resource_version >= version);
    match tokio::time::timeout(within, wait).await {
        Ok(Ok(progress)) => !progress.closed,
        Ok(Err(_)) | Err(_) => false,
    }
}
