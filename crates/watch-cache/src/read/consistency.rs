//! Decides whether the cache is recent enough for a request, in `Strict`, `Fresh` and
//! `Bounded`, and how long a request waits for a version that is not there yet.

use std::time::{Duration, Instant};

use super::own_writes::LastWrite;
use super::{BypassReason, Freshness, HitCost};
use crate::Consistency;
use crate::reflector::Entry;
use crate::store::Store;

/// The time that a request waits for a version that the cache is about to
/// reach. After it, upstream is asked. kube-apiserver waits 3 s in this case.
const CATCH_UP: Duration = Duration::from_millis(100);

/// The time that a read waits for the caller's own write to arrive on the main
/// watch. After it, upstream is asked.
const OWN_WRITE: Duration = Duration::from_secs(1);

/// Where the answer to a read comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerSource {
    /// The store's current state. If the read requires it, a question to
    /// upstream has proven the state recent.
    Store(HitCost),
    /// A shared read of upstream that begins now.
    SharedRead,
}

/// The store to be read, and the consistency that the read requires.
#[derive(Clone, Copy)]
pub struct Consistent<'a> {
    pub entry: &'a Entry,
    pub store: &'a Store,
    pub mode: Consistency,
    pub max_staleness: Duration,
    /// The caller's own writes.
    pub wrote: LastWrite,
}

impl Consistent<'_> {
    /// Waits until the store can answer. Returns the source of the answer, or
    /// the reason for a bypass.
    pub async fn ensure(self, freshness: Freshness) -> Result<AnswerSource, BypassReason> {
        if self.entry.lifecycle().disconnected_for(Instant::now()) > self.max_staleness {
            return Err(BypassReason::Stale);
        }
        match freshness {
            Freshness::Any => Ok(AnswerSource::Store(HitCost::Nothing)),
            Freshness::NotOlderThan(version) => reached(self.store, version, CATCH_UP)
                .await
                .then_some(AnswerSource::Store(HitCost::Nothing))
                .ok_or(BypassReason::FutureVersion),
            Freshness::MostRecent => Ok(match self.recent().await {
                Some(cost) => AnswerSource::Store(cost),
                None => AnswerSource::SharedRead,
            }),
        }
    }

    /// Returns what it cost to prove the store recent in this mode. `None` if
    /// that failed, or if the store lacks the caller's own writes.
    async fn recent(self) -> Option<HitCost> {
        if self.mode == Consistency::Strict {
            return None;
        }
        let has_own_writes = match self.wrote {
            LastWrite::Nothing => true,
            LastWrite::Version(version) => reached(self.store, version, OWN_WRITE).await,
            LastWrite::Unknown => false,
        };
        if !has_own_writes {
            return None;
        }
        let bounded = self.mode == Consistency::Bounded;
        if bounded
            && self
                .entry
                .freshness()
                .proven_within(self.max_staleness, Instant::now())
        {
            return Some(HitCost::Nothing);
        }
        if !bounded && self.entry.freshness().is_suspended(Instant::now()) {
            return None;
        }
        self.prove().await.map(|()| HitCost::Version)
    }

    /// Asks upstream for its version and waits until the store has reached it.
    /// All callers that came before the question was sent share it.
    async fn prove(self) -> Option<()> {
        let Self { entry, store, .. } = self;
        // A new watch delivers the changes of the gap later, so a proof only
        // holds within one stream.
        let stream = entry.freshness().stream()?;
        let asked = Instant::now();
        let version = entry.shared_version().await?;
        if store.progress().resource_version < version {
            // If nothing of this resource has changed, the main watch stays
            // silent, and it is enough to wait for the settling time.
            reached(store, version, entry.freshness().settle(Instant::now())).await;
        }
        if entry.freshness().stream()? != stream {
            return None;
        }
        entry.freshness().promise(version);
        entry.freshness().proven(asked);
        Some(())
    }
}

/// Waits for at most `within` until the store has reached the version. Returns
/// false if it has not, or was closed.
pub async fn reached(store: &Store, version: u64, within: Duration) -> bool {
    let mut progress = store.subscribe();
    let wait = progress.wait_for(|p| p.closed || p.resource_version >= version);
    match tokio::time::timeout(within, wait).await {
        Ok(Ok(progress)) => !progress.closed,
        Ok(Err(_)) | Err(_) => false,
    }
}
