//! The options of a watch.

use std::time::Duration;

use crate::store::Filter;

#[derive(Clone, Debug)]
pub struct WatchOptions {
    pub filter: Filter,
    pub bookmarks: bool,
    /// The time after which the watch ends normally.
    pub lasts: Duration,
}
