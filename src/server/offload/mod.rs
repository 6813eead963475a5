//! Runs work that takes the CPU for milliseconds or more. It runs in turns, on
//! threads that serve no other request.
//!
//! One user has at most as many turns at a time as there are cores, less one. A
//! later request waits for its turn without holding a thread. If it wants a
//! compressed list that another request also wanted, it then finds most of the list
//! compressed. All users together have twice as many turns as there are cores, so
//! that another user's request begins while a thousand requests of one user wait.

pub(super) mod threads;

use apifront_watch_cache::read::BypassReason;
use kubernetes_wire::api::UserInfo;

use crate::flow::{Flow, HeldBytes, Rejected};
use crate::server::stage::Identified;

/// The user for whom an answer is made.
#[derive(Clone, Copy)]
pub(in crate::server) struct OffloadUser<'a> {
    limits: &'a Flow,
    /// `None` for apifront's own user.
    user: Option<&'a UserInfo>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum OffloadRefusal {
    Bypass(BypassReason),
    /// The user has too much work waiting or running. The answer is a 429.
    Overloaded,
}

impl From<BypassReason> for OffloadRefusal {
    fn from(reason: BypassReason) -> Self {
        Self::Bypass(reason)
    }
}

impl From<Rejected> for OffloadRefusal {
    fn from(_: Rejected) -> Self {
        Self::Overloaded
    }
}

impl<'a> OffloadUser<'a> {
    pub(in crate::server) fn new(identified: &'a Identified) -> Self {
        Self {
            limits: &identified.generation().flow,
            user: identified.user(),
        }
    }

    /// Names the user of a request that has gone on without its connection.
    pub(in crate::server) fn of(limits: &'a Flow, user: Option<&'a UserInfo>) -> Self {
        Self { limits, user }
    }

    /// Runs the work when its turn comes. Work that has begun is finished, even if
    /// no caller waits for it any more. Returns `None` if the work panics.
    pub(in crate::server) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, Rejected> {
        let turn = self.limits.turn(self.user).await?;
        let work = move || {
            let done = work();
            drop(turn);
            done
        };
        Ok(threads::run(work).await)
    }

    /// Waits for room for an answer with about this many bytes of its own.
    pub(in crate::server) async fn hold(self, bytes: usize) -> Result<HeldBytes, Rejected> {
        self.limits.hold(self.user, bytes).await
    }
}
