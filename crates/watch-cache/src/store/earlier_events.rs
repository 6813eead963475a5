//! Events from before a store's log.

use std::collections::VecDeque;
use std::sync::Arc;

use apifront_shares::Share;

use super::{Change, StoredObject};

/// The events that one watch selects, oldest first, up to `version`. The store's log
/// goes on from there.
#[derive(Debug)]
pub struct EarlierEvents {
    pub(crate) events: VecDeque<(Change, StoredObject)>,
    pub(crate) version: u64,
    /// A share of the bound on all watchers' earlier events: no two watchers share
    /// events.
    #[expect(dead_code, reason = "a place is taken until dropped")]
    pub(crate) place: Share<Arc<str>>,
}

impl EarlierEvents {
    /// Tells whether all events are of selected objects.
    pub fn all(&self, mut is_selected: impl FnMut(&StoredObject) -> bool) -> bool {
        self.events.iter().all(|(_, object)| is_selected(object))
    }
}
