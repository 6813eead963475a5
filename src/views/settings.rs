//! The settings of all views.

use std::time::Duration;

use kubernetes_wire::api::UserInfo;

use crate::authz::NamedCallers;

/// The callers who get views, or may ask for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewCallers {
    /// The callers who get views without asking for them.
    pub named: NamedCallers,
    /// Whether the header of a request may ask for a view.
    pub request_header: bool,
}

impl ViewCallers {
    /// Tells whether the user gets views without asking for them.
    pub fn names(&self, user: &UserInfo) -> bool {
        self.named.names(user)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewsSettings {
    /// The age after which a grant is asked about again.
    pub review_ttl: Duration,
    /// The time after `review_ttl` for which a grant still holds if it cannot be
    /// asked about again.
    pub outage: Duration,
    pub max_views: usize,
    pub max_grants: usize,
    pub max_names: usize,
}
