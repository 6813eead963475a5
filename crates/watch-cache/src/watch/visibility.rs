//! What the watcher of a view may see, as it changes.

use tokio::sync::watch::Receiver;

use crate::store::Visible;

/// The set that a watch of a view begins with, and the newest one.
#[derive(Clone, Debug)]
pub struct Visibility {
    /// The set that the client's state is of when the watch begins.
    pub(super) begins_with: Visible,
    /// The newest set. When its sender is gone, nobody looks after the view any
    /// more, and the watch ends.
    pub(super) newest: Receiver<Visible>,
}

impl Visibility {
    /// `begins_with` is the set under which the watch's version was found to be
    /// new enough: it is not read from `newest`, which may have changed since.
    pub fn new(begins_with: Visible, newest: Receiver<Visible>) -> Self {
        Self {
            begins_with,
            newest,
        }
    }
}

/// The store has not reached the version that the watch of a view is to begin
/// after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store has not reached the version yet")]
pub struct NotReached;
