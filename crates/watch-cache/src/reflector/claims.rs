//! The claims of the configuration about extension API servers that were found
//! to be wrong.

use std::collections::HashSet;

use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use parking_lot::RwLock;

use super::cache::{Cache, Selection, Unavailable};

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
}

impl Cache {
    /// Stops caching the resource's group version, if it is cached only because
    /// the configuration says that all callers see the same. Returns true if
    /// this call decided that.
    pub fn withdraw_claim(&self, gvr: &GroupVersionResource, selection: &dyn Selection) -> bool {
        let is_remote = self.check_server(gvr) == Err(Unavailable::Aggregated);
        if !is_remote || !selection.trusts(gvr) {
            return false;
        }
        let group_version = gvr.group_version();
        if !self.withdrawn.0.write().insert(group_version.clone()) {
            return false;
        }
        for entry in self.entries() {
            if entry.gvr.group_version() == group_version {
                self.stop(
                    &entry.gvr,
                    "its server shows callers different things",
                    |_| true,
                );
            }
        }
        true
    }

    /// Believes the configuration again, because it has changed.
    pub fn renew_claims(&self) {
        self.withdrawn.0.write().clear();
    }
}
