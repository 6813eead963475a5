//! The rights in memory, published as they change, for views.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::store::Progress;
use futures::FutureExt;
use futures::future::select_all;
use tokio::sync::watch::{Receiver, Sender};

use super::saved_rbac::CachedRbac;
use crate::authz::rbac::{Rights, SavedRbac};
use crate::views::KnownRights;

/// Changes that come within this time are read together.
const TOGETHER: Duration = Duration::from_millis(20);

/// After a reading that took a while, others wait this many times as long. A
/// flood of changes then costs a fifth of a core.
const REST: u32 = 4;

/// The time between two looks whether the rights are still known.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The log says when rights are not known for this time.
const PATIENCE: Duration = Duration::from_secs(30);

pub(in crate::server) struct RightsFeed {
    rbac: Arc<CachedRbac>,
    rights: Sender<Option<Arc<Rights>>>,
}

impl RightsFeed {
    pub(in crate::server) fn new(rbac: Arc<CachedRbac>) -> Self {
        Self {
            rbac,
            rights: Sender::new(None),
        }
    }

    pub(in crate::server) fn subscribe(&self) -> KnownRights {
        self.rights.subscribe()
    }

    /// Publishes the rights while they are wanted, forever. `max_staleness` is
    /// the time for which rights hold that cannot be kept recent, or `None` if
    /// nobody wants any.
    pub(in crate::server) async fn run(&self, max_staleness: impl Fn() -> Option<Duration>) {
        let mut unknown_since = Some(Instant::now());
        loop {
            let began = Instant::now();
            // A change while the rights are read is noticed after it.
            let changes = self.rbac.subscribe();
            let wanted = max_staleness();
            let rights = match wanted {
                Some(longest) if !self.rbac.is_lost(longest) => self.rbac.rights().await,
                _ => None,
            };
            let rights = rights.map(|(rights, _)| rights);
            unknown_since = complain(rights.is_none() && wanted.is_some(), unknown_since);
            self.publish(rights);
            let took = began.elapsed();
            change(changes).await;
            tokio::time::sleep(took.saturating_mul(REST).max(TOGETHER)).await;
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

/// Waits until something may have changed, for at most [`LOOK_EVERY`].
async fn change(mut changes: Vec<Receiver<Progress>>) {
    let look = tokio::time::sleep(LOOK_EVERY);
    if changes.is_empty() {
        return look.await;
    }
    let changed = select_all(changes.iter_mut().map(|change| change.changed().boxed()));
    tokio::select! {
        _ = changed => {}
        () = look => {}
    }
}

/// Says once in the log that the rights are not known. Returns the time since
/// which they are not, as long as that was not said.
fn complain(is_unknown: bool, since: Option<Instant>) -> Option<Instant> {
    match (is_unknown, since) {
        (false, _) => Some(Instant::now()),
        (true, Some(since)) if since.elapsed() > PATIENCE => {
            tracing::warn!(
                "RBAC objects cannot be read, so there are no views: \
                 callers get the 403 that they would get without them"
            );
            None
        }
        (true, since) => since,
    }
}
