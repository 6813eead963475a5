//! Publishes the rights from RBAC in memory for views, each time they change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::store::Progress;
use futures::FutureExt;
use futures::future::{pending, select_all};
use tokio::sync::Notify;
use tokio::sync::watch::{Receiver, Sender};

use super::saved_rbac::CachedRbac;
use crate::authz::rbac::{Rights, SavedRbac};
use crate::views::KnownRights;

/// Changes within this time are read together.
const GATHER_DELAY: Duration = Duration::from_millis(20);

/// After reading the rights, the task rests for this many times the time that the
/// reading took. So a flood of changes costs at most a fifth of a core.
const REST_FACTOR: u32 = 4;

/// The time between two looks whether the rights are still known.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The time between two looks while the rights are wanted but not known. It is
/// short, because a caller's first list waits for them.
const LOOK_FOR_FIRST_EVERY: Duration = Duration::from_millis(50);

/// How long the rights may be unknown before the log says so.
const LOG_DELAY: Duration = Duration::from_secs(30);

pub(in crate::server) struct RightsFeed {
    rbac: Arc<CachedRbac>,
    rights: Sender<Option<Arc<Rights>>>,
    reloaded: Notify,
}

impl RightsFeed {
    pub(in crate::server) fn new(rbac: Arc<CachedRbac>) -> Self {
        Self {
            rbac,
            rights: Sender::new(None),
            reloaded: Notify::new(),
        }
    }

    pub(in crate::server) fn subscribe(&self) -> KnownRights {
        self.rights.subscribe()
    }

    /// Notes that a reload may have changed whether and for how long rights are
    /// wanted.
    pub(in crate::server) fn reloaded(&self) {
        self.reloaded.notify_one();
    }

    /// Publishes the rights while they are wanted, forever. `max_staleness` returns
    /// how long rights hold that cannot be kept recent, or `None` if nobody wants
    /// rights.
    pub(in crate::server) async fn run(&self, max_staleness: impl Fn() -> Option<Duration>) {
        let mut unknown_since = Some(Instant::now());
        loop {
            let began = Instant::now();
            // Subscribing first ensures that a change during the reading is noticed.
            let changes = self.rbac.subscribe();
            let wanted = max_staleness();
            let rights = match wanted {
                Some(longest) if !self.rbac.is_lost(longest) => self.rbac.rights().await,
                _ => None,
            };
            let rights = rights.map(|(rights, _)| rights);
            let is_missing = rights.is_none() && wanted.is_some();
            unknown_since = complain(is_missing, unknown_since);
            self.publish(rights);
            let took = began.elapsed();
            let look = match is_missing {
                true => LOOK_FOR_FIRST_EVERY,
                false => LOOK_EVERY,
            };
            tokio::select! {
                () = change(changes) => {}
                () = self.reloaded.notified() => {}
                () = tokio::time::sleep(look) => {}
            }
            tokio::time::sleep(took.saturating_mul(REST_FACTOR).max(GATHER_DELAY)).await;
        }
    }

    fn publish(&self, rights: Option<Arc<Rights>>) {
        self.rights.send_if_modified(|held| {
            let same = match (&*held, &rights) {
                (Some(held), Some(rights)) => Arc::ptr_eq(held, rights),
                (None, None) => true,
                _ => false,
            };
            if !same {
                *held = rights;
            }
            !same
        });
    }
}

/// Waits until an object may have changed. Waits forever if there is no store.
async fn change(mut changes: Vec<Receiver<Progress>>) {
    if changes.is_empty() {
        return pending().await;
    }
    let _ = select_all(changes.iter_mut().map(|change| change.changed().boxed())).await;
}

/// Says once in the log that the rights are not known. Returns the time since which
/// they are unknown, or `None` once the log has said so.
fn complain(is_unknown: bool, since: Option<Instant>) -> Option<Instant> {
    match (is_unknown, since) {
        (false, _) => Some(Instant::now()),
        (true, Some(since)) if since.elapsed() > LOG_DELAY => {
            tracing::warn!(
                "RBAC objects cannot be read, so there are no views: \
                 callers get the 403 that they would get without them"
            );
            None
        }
        (true, since) => since,
    }
}
