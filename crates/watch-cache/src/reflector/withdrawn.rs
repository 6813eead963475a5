//! The claims of the configuration about extension API servers that were found
//! to be wrong.

use std::collections::HashSet;

use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use parking_lot::RwLock;

/// The group versions whose server shows callers different things, although the
/// configuration says that it does not. Only cached resources are compared,
/// which bounds their number.
#[derive(Default)]
pub(super) struct Withdrawn(RwLock<HashSet<GroupVersion>>);

impl Withdrawn {
    pub(super) fn contains(&self, gvr: &GroupVersionResource) -> bool {
        let withdrawn = self.0.read();
        !withdrawn.is_empty() && withdrawn.contains(&gvr.group_version())
    }
    /// Returns false if it was withdrawn before.
    pub(super) fn insert(&self, group_version: GroupVersion) -> bool {
        self.0.write().insert(group_version)
    }

    pub(super) fn clear(&self) {
        self.0.write().clear();
    }
}
