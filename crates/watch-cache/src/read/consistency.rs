//! Decides whether the cache is recent enough for a request.

use std::time::{Duration, Instant};

use super::own_writes::LastWrite;
use super::{BypassReason, Freshness, HitCost};
use crate::Consistency;
use crate::reflector::Entry;
use crate::store::Store;

/// A request for a version that the cache is about to reach waits for at most
/// this time before upstream is asked instead. kube-apiserver waits 3 s for the
/// same.
const CATCH_UP: Duration = Duration::from_millis(100);

/// A caller's own write may take this long to arrive on the main watch before
/// upstream is asked instead.
const OWN_WRITE: Duration = Duration::from_secs(1);

/// The source of a read's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerSource {
    /// The current state of the store, proven recent by a question if the read wants
    /// that.
    Store(HitCost),
    /// A shared read of upstream that begins now.
    SharedRead,
}

/// The store to be read, and the consistency that is required of it.
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
        if self.entry.disconnected_for(Instant::now()) > self.max_staleness {
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

    /// Returns the question that proves the store recent, as the mode requires it.
    /// `None` if it is not proven, or has not the caller's own writes.
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
        if bounded && self.entry.proven_within(self.max_staleness, Instant::now()) {
            return Some(HitCost::Nothing);
        }
        if !bounded && self.entry.is_suspended(Instant::now()) {
            return None;
        }
        self.prove().await.map(|()| HitCost::Version)
    }

    /// Asks upstream for its version and waits until the store has reached it.
    /// One question at a time serves all callers who came before it was asked.
    async fn prove(self) -> Option<()> {
        let Self { entry, store, .. } = self;
        // A watch that begins anew delivers the changes made meanwhile later,
        // so that a proof holds only within one stream.
        let stream = entry.stream()?;
        let asked = Instant::now();
        let version = entry.shared_version().await?;
        if store.progress().resource_version < version {
            // If nothing of this resource has changed since, the main watch
            // stays silent, and waiting for the settling time is enough.
            reached(store, version, entry.settle(Instant::now())).await;
        }
        if entry.stream()? != stream {
            return None;
        }
        entry.promise(version);
        entry.proven(asked);
        Some(())
    }
}

/// Waits until the store has reached the version. Returns false if it has not
/// within this time, or was closed.
pub async fn reached(store: &Store, version: u64, within: Duration) -> bool {
    let mut progress = store.subscribe();
    let wait = progress.wait_for(|p| p.closed || p.resource_version >= version);
    match tokio::time::timeout(within, wait).await {
        Ok(Ok(progress)) => !progress.closed,
        Ok(Err(_)) | Err(_) => false,
    }
}
