//! The settings of all views.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewsSettings {
    /// The age after which a grant is asked for again.
    pub review_ttl: Duration,
    /// The time after `review_ttl` for which a grant holds that cannot be asked
    /// for again.
    pub outage: Duration,
    pub max_views: usize,
    /// The most places of one view.
    pub max_grants: usize,
    /// The most names in one namespace.
    pub max_names: usize,
}
