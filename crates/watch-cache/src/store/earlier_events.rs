//! Events from before a store's log.

use std::sync::Arc;

use apifront_shares::Share;

use super::{Change, StoredObject};

/// The events that some watches select, oldest first, up to `version`. The store's log
/// goes on from there. The watches share them.
#[derive(Debug)]
pub(crate) struct SharedEvents {
    pub(crate) events: Vec<(Change, StoredObject)>,
    pub(crate) version: u64,
    /// A share of the bound on all such events, unless these are small.
    pub(crate) place: Option<Share<Arc<str>>>,
}

/// The part of them that one watch is sent.
#[derive(Debug)]
pub struct EarlierEvents {
    shared: Arc<SharedEvents>,
    next: usize,
}

impl EarlierEvents {
    /// Returns the events after a version.
    pub(crate) fn after(shared: Arc<SharedEvents>, version: u64) -> Self {
        let known = |(_, object): &(Change, StoredObject)| object.resource_version <= version;
        let next = shared.events.partition_point(known);
        Self { shared, next }
    }

    /// Returns the version up to which these are all events.
    pub(crate) fn version(&self) -> u64 {
        self.shared.version
    }

    fn rest(&self) -> &[(Change, StoredObject)] {
        self.shared.events.get(self.next..).unwrap_or_default()
    }

    pub(crate) fn next(&mut self) -> Option<&(Change, StoredObject)> {
        let event = self.shared.events.get(self.next)?;
        self.next = self.next.saturating_add(1);
        Some(event)
    }

    /// Tells whether all events are of selected objects.
    pub fn all(&self, mut is_selected: impl FnMut(&StoredObject) -> bool) -> bool {
        self.rest().iter().all(|(_, object)| is_selected(object))
    }
}
