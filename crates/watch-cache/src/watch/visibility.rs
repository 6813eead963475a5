//! What the watcher of a view may see, as it changes.

use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use crate::store::Visible;

/// The set that a watch of a view begins with, and the newest one.
#[derive(Clone, Debug)]
pub struct Visibility {
    /// The set that the client's state is of when the watch begins.
    pub(super) begins_with: Visible,
    /// The newest set. When its sender is gone, nobody looks after the view any
    /// more, and the watch ends.
    pub(super) newest: Receiver<Visible>,
    /// See [`Visibility::resumed`].
    pub(super) gains_end_before: Option<Instant>,
}

impl Visibility {
    /// `begins_with` is the set under which the watch's version was found to be
    /// new enough: it is not read from `newest`, which may have changed since.
    pub fn new(begins_with: Visible, newest: Receiver<Visible>) -> Self {
        Self {
            begins_with,
            newest,
            gains_end_before: None,
        }
    }

    /// Notes that another replica may have given the client its state. That one
    /// may have known of a gain that will be known here until this moment, and
    /// what was deleted meanwhile would not be told. So a gain before ends the
    /// watch, and the client lists anew.
    #[must_use]
    pub fn resumed(self, until: Instant) -> Self {
        Self {
            gains_end_before: Some(until),
            ..self
        }
    }
}

/// The store has not reached the version that the watch of a view is to begin
/// after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store has not reached the version yet")]
pub struct NotReached;
