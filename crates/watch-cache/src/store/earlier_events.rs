//! Events from before a store's log.

use std::collections::VecDeque;
use std::sync::Arc;

use apifront_shares::Share;

use super::{Change, StoredObject};

/// The events of one watch's selection, oldest first, up to a version with which
/// the store's log goes on.
#[derive(Debug)]
pub struct EarlierEvents {
    pub(crate) events: VecDeque<(Change, StoredObject)>,
    pub(crate) version: u64,
    /// One watcher alone holds the events, so there is a bound for all of them.
    #[expect(dead_code, reason = "a place is taken until dropped")]
    pub(crate) place: Share<Arc<str>>,
}

impl EarlierEvents {
    /// Tells whether these are events of selected objects alone.
    pub fn all(&self, mut is_selected: impl FnMut(&StoredObject) -> bool) -> bool {
        self.events.iter().all(|(_, object)| is_selected(object))
    }
}
