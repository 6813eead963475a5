//! The settings of authorization.

use std::time::Duration;

use kubernetes_wire::api::UserInfo;

/// The name that stands for everybody.
const ANY: &str = "*";

/// The time for which an answer is used; zero means not at all. The settings are
/// applied when an answer is read, so that a reload affects earlier answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthzSettings {
    pub allow_ttl: Duration,
    /// The time for denials and for answers without an opinion.
    pub deny_ttl: Duration,
    /// While no API server can be reached, the time for which allowances hold after
    /// the last answer of an API server, if they could be used then.
    pub outage: Duration,
    /// The time for which decisions are kept for degraded mode. Each request in
    /// degraded mode applies its own limit.
    pub degraded: Duration,
    pub cached_rbac: CachedRbacUse,
}

/// Whether the RBAC objects in memory may allow a request without a review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachedRbacUse {
    #[default]
    Disabled,
    Allow,
}

/// The state of the feature gate `ConstrainedImpersonation` in upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConstrainedImpersonation {
    /// The default of the upstream's release.
    #[default]
    Auto,
    Enabled,
    Disabled,
}

/// The limits for answers in degraded mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DegradedBounds {
    /// The greatest age of a cached state, of an authorization decision and of a
    /// token review.
    pub max_age: Duration,
    pub authorization: DegradedAuthorization,
}

/// The source of authorization decisions in degraded mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DegradedAuthorization {
    /// Decisions that upstream made earlier.
    Cached,
    /// RBAC objects in memory, which this process evaluates.
    Rbac,
}

impl DegradedAuthorization {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cached => "Cached",
            Self::Rbac => "RBAC",
        }
    }
}

/// The callers that a setting names, by user or by group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedCallers {
    pub users: Vec<String>,
    pub groups: Vec<String>,
}

impl NamedCallers {
    /// Tells whether the user or one of their groups is named.
    pub fn names(&self, user: &UserInfo) -> bool {
        let chosen = |name: &str, by: &[String]| by.iter().any(|n| n == ANY || n == name);
        chosen(&user.name, &self.users)
            || self.groups.iter().any(|group| group == ANY)
            || user.groups.iter().any(|group| chosen(group, &self.groups))
    }
}
