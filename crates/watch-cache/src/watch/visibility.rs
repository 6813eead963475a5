//! The set of objects that the watcher of a view may see, as it changes.

use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use crate::store::Visible;

/// The set that the watch of a view begins with, and the newest set.
#[derive(Clone, Debug)]
pub struct Visibility {
    /// The set of the client's state when the watch begins.
    pub(super) begins_with: Visible,
    /// The newest set. When its sender is gone, nobody updates the view any
    /// more, and the watch ends.
    pub(super) newest: Receiver<Visible>,
    pub(super) resumed: Option<Resumed>,
}

/// The set that the watch begins with is in doubt, see [`Visibility::resumed`].
#[derive(Clone, Debug)]
pub(super) struct Resumed {
    doubted: Receiver<Option<Instant>>,
    until: Instant,
}

impl Resumed {
    /// Tells whether the client may have begun with another set.
    pub(super) fn is_refuted(&self) -> bool {
        is_before(self.until, *self.doubted.borrow())
    }

    /// Resolves when the client may have begun with another set.
    pub(super) async fn refuted(mut self) {
        let refuted = |at: &Option<Instant>| is_before(self.until, *at);
        let is_over = self.doubted.wait_for(refuted).await.is_err();
        if is_over {
            // No doubt before `until` can come any more.
            std::future::pending::<()>().await;
        }
    }
}

fn is_before(until: Instant, doubted: Option<Instant>) -> bool {
    doubted.is_some_and(|at| at < until)
}

impl Visibility {
    /// `begins_with` is the set under which the watch's version was found to be
    /// new enough. It is not read from `newest`, which may have changed since.
    pub fn new(begins_with: Visible, newest: Receiver<Visible>) -> Self {
        Self {
            begins_with,
            newest,
            resumed: None,
        }
    }

    /// Returns the set of the client's state when the watch begins.
    pub fn begins_with(&self) -> &Visible {
        &self.begins_with
    }

    /// Tells whether the set is not that of the beginning any more, or nobody updates it.
    pub fn is_over(&self) -> bool {
        *self.newest.borrow() != self.begins_with || self.newest.has_changed().is_err()
    }

    /// Resolves when the set is not that of the beginning any more, or nobody updates
    /// it.
    pub async fn changed(mut self) {
        let Self {
            begins_with,
            newest,
            ..
        } = &mut self;
        let is_another = |set: &Visible| set != begins_with;
        let _ = newest.wait_for(is_another).await;
    }

    /// Notes that another replica may have given the client its state. That
    /// replica may already have known a change of the set that becomes known
    /// here later, but before `until`. The client would then miss deletions. So
    /// if a moment before `until` is in `doubted`, the watch ends and the
    /// client lists again.
    #[must_use]
    pub fn resumed(self, doubted: Receiver<Option<Instant>>, until: Instant) -> Self {
        Self {
            resumed: Some(Resumed { doubted, until }),
            ..self
        }
    }
}

/// The store has not reached the version that the watch of a view begins after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store has not reached the version yet")]
pub struct NotReached;
