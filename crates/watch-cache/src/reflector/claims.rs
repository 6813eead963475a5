//! What the owner says of extension API servers, and was found wrong.

use std::collections::HashSet;

use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use parking_lot::RwLock;

use super::cache::{Cache, Selection, Unavailable};

/// The group versions whose server shows callers different things, although the
/// owner says that it does not. There are no more than resources that were cached,
/// since only these are compared.
#[derive(Default)]
pub(super) struct Withdrawn(RwLock<HashSet<GroupVersion>>);

impl Withdrawn {
    pub(super) fn contains(&self, gvr: &GroupVersionResource) -> bool {
        let withdrawn = self.0.read();
        !withdrawn.is_empty() && withdrawn.contains(&gvr.group_version())
    }
}

impl Cache {
    /// Stops caching what a resource's server answers, if it is cached only because
    /// the owner says that all callers see the same. Returns true if that was
    /// decided now.
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

    /// Believes the owner again, who has changed what is said.
    pub fn renew_claims(&self) {
        self.withdrawn.0.write().clear();
    }
}
