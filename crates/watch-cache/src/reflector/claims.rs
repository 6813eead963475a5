//! Takes back and renews the trust in the configuration's claims about extension
//! API servers.

use kubernetes_wire::api::GroupVersionResource;

use super::cache::{Cache, Selection};
use super::unavailable::Unavailable;

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
        if !self.withdrawn.insert(group_version.clone()) {
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
        self.withdrawn.clear();
    }
}
