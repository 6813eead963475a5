//! Work that takes the CPU for milliseconds and more: it is done on threads that
//! serve nobody, and by turns.
//!
//! There are as many turns at a time as there are cores. A later request waits for
//! its turn and holds no thread; if it wants a list compressed that another request
//! wanted too, it then finds most of it done. Turns go round among users: one user's thousand
//! requests delay another's by one.

use apifront_watch_cache::read::BypassReason;
use kubernetes_wire::api::UserInfo;

use crate::flow::{Flow, Held, Rejected};
use crate::server::stage::Identified;

/// The user for whom an answer is made.
#[derive(Clone, Copy)]
pub(in crate::server) struct Behalf<'a> {
    limits: &'a Flow,
    /// `None`: apifront's own user.
    user: Option<&'a UserInfo>,
}

/// Why an answer is not made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Unmade {
    Bypass(BypassReason),
    /// The user has too much under way: 429.
    Overloaded,
}

impl From<BypassReason> for Unmade {
    fn from(reason: BypassReason) -> Self {
        Self::Bypass(reason)
    }
}

impl From<Rejected> for Unmade {
    fn from(_: Rejected) -> Self {
        Self::Overloaded
    }
}

impl<'a> Behalf<'a> {
    pub(in crate::server) fn new(identified: &'a Identified) -> Self {
        Self {
            limits: &identified.generation().flow,
            user: identified.user(),
        }
    }

    /// Work that has begun is brought to its end, whether or not somebody waits for
    /// it. `None` if it panics.
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
        Ok(tokio::task::spawn_blocking(work).await.ok())
    }

    /// Room for an answer of about so many bytes of its own.
    pub(in crate::server) async fn hold(self, bytes: usize) -> Result<Held, Rejected> {
        self.limits.hold(self.user, bytes).await
    }
}
