//! The settings of all views.

use std::time::Duration;

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
