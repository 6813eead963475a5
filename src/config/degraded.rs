//! `cache.degraded`: the reads that go on while no API server can be reached.

use std::time::Duration;

use apifront_watch_cache::{ResourcePattern, Settings};
use kubernetes_wire::api::{GroupVersionResource, UserInfo};

use super::cache::patterns;
use super::check::Check;
use super::raw;

/// The resources of Kubernetes' RBAC.
pub const RBAC: [&str; 4] = [
    "clusterroles.v1.rbac.authorization.k8s.io",
    "clusterrolebindings.v1.rbac.authorization.k8s.io",
    "roles.v1.rbac.authorization.k8s.io",
    "rolebindings.v1.rbac.authorization.k8s.io",
];

/// Unreachable servers are asked once a second. In less time than this, a single
/// lost connection would start the mode.
const LEAST_AFTER: Duration = Duration::from_secs(2);

const ANY: &str = "*";

/// There is at least one read.
#[derive(Clone, Debug, PartialEq)]
pub struct Degraded {
    reads: Vec<DegradedReads>,
    /// The mode begins when no API server could be reached for this time.
    pub after: Duration,
    pub bounds: DegradedBounds,
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

#[derive(Clone, Debug, PartialEq)]
struct DegradedReads {
    resources: Vec<ResourcePattern>,
    groups: Vec<String>,
    users: Vec<String>,
}

impl DegradedReads {
    /// Secrets are chosen only by their name, never by a pattern for many resources.
    fn names_resource(&self, gvr: &GroupVersionResource) -> bool {
        let secret = gvr.group.is_empty() && gvr.resource == "secrets";
        let mut named = self.resources.iter().filter(|p| p.matches(gvr));
        named.any(|pattern| !secret || pattern.names_one_resource())
    }
}

/// Tells whether the user or one of their groups is listed.
pub(super) fn names_user(user: &UserInfo, users: &[String], groups: &[String]) -> bool {
    let chosen = |name: &str, by: &[String]| by.iter().any(|n| n == ANY || n == name);
    chosen(&user.name, users)
        || groups.iter().any(|group| group == ANY)
        || user.groups.iter().any(|group| chosen(group, groups))
}

impl Degraded {
    /// Tells whether any caller may read the resource in degraded mode.
    pub fn names_resource(&self, gvr: &GroupVersionResource) -> bool {
        self.reads.iter().any(|reads| reads.names_resource(gvr))
    }

    /// Tells whether this user may read the resource in degraded mode, if
    /// authorized.
    pub fn names(&self, gvr: &GroupVersionResource, user: &UserInfo) -> bool {
        let mut named = self.reads.iter().filter(|r| r.names_resource(gvr));
        named.any(|reads| names_user(user, &reads.users, &reads.groups))
    }
}

/// Checks the section. Adds the resources that the mode needs to the preloaded ones.
pub(super) fn check(
    raw: &raw::Degraded,
    has_callers: bool,
    cache: &mut Settings,
    check: &mut Check,
) -> Option<Degraded> {
    let after = check.duration("cache.degraded.after", &raw.after, Duration::from_secs(5));
    if after < LEAST_AFTER {
        let text = raw.after.as_deref().unwrap_or_default();
        check.error("cache.degraded.after", text, "must be at least 2s");
    }
    let authorization = check.one_of(
        "cache.degraded.authorization",
        &raw.authorization,
        DegradedAuthorization::Cached,
        &[
            ("Cached", DegradedAuthorization::Cached),
            ("RBAC", DegradedAuthorization::Rbac),
        ],
    );
    let max_age = check.duration("cache.degraded.maxAge", &raw.max_age, Duration::ZERO);
    let reads = raw.reads.as_deref().unwrap_or_default();
    if reads.is_empty() {
        return None;
    }
    if !has_callers {
        let why = "needs a configuration file: callers are not told apart otherwise";
        check.error("cache.degraded.reads", "", why);
    }
    if raw.max_age.is_none() {
        check.error("cache.degraded.maxAge", "", "needed with reads");
    } else if max_age < cache.max_staleness {
        let text = raw.max_age.as_deref().unwrap_or_default();
        let why = "must not be less than cache.maxStaleness";
        check.error("cache.degraded.maxAge", text, why);
    }
    let reads: Vec<DegradedReads> = (0..)
        .zip(reads)
        .map(|(i, reads)| checked_reads(&format!("cache.degraded.reads[{i}]"), reads, cache, check))
        .collect();
    let named = reads.iter().flat_map(|reads| &reads.resources);
    preload(cache, named.filter(|p| p.names_one_resource()).cloned());
    if authorization == DegradedAuthorization::Rbac {
        preload_rbac("cache.degraded.authorization", cache, check);
    }
    Some(Degraded {
        reads,
        after,
        bounds: DegradedBounds {
            max_age,
            authorization,
        },
    })
}

/// Adds RBAC's resources to the preloaded ones. `field` turns on the feature that
/// needs them.
pub(super) fn preload_rbac(field: &str, cache: &mut Settings, check: &mut Check) {
    let rbac: Vec<_> = RBAC
        .iter()
        .filter_map(|p| ResourcePattern::parse(p))
        .collect();
    for pattern in rbac.iter().filter(|pattern| is_excluded(pattern, cache)) {
        let why = "RBAC needs resources that are excluded from the cache";
        check.error(field, &pattern.to_string(), why);
    }
    preload(cache, rbac);
}

fn checked_reads(
    field: &str,
    raw: &raw::DegradedReads,
    cache: &Settings,
    check: &mut Check,
) -> DegradedReads {
    let resources = patterns(&format!("{field}.resources"), &raw.resources, &[], check);
    if raw.resources.as_deref().unwrap_or_default().is_empty() {
        check.error(&format!("{field}.resources"), "", "needed");
    }
    for pattern in resources
        .iter()
        .filter(|pattern| is_excluded(pattern, cache))
    {
        let why = "is excluded from the cache";
        check.error(&format!("{field}.resources"), &pattern.to_string(), why);
    }
    let groups = raw.groups.clone().unwrap_or_default();
    let users = raw.users.clone().unwrap_or_default();
    if groups.is_empty() && users.is_empty() {
        let why = "needed, or users; * is everybody";
        check.error(&format!("{field}.groups"), "", why);
    }
    if groups.iter().chain(&users).any(String::is_empty) {
        check.error(field, "", "a group or a user must not be empty");
    }
    DegradedReads {
        resources,
        groups,
        users,
    }
}

/// Tells whether the pattern names one resource that the cache never holds.
fn is_excluded(pattern: &ResourcePattern, cache: &Settings) -> bool {
    let gvr = match pattern {
        ResourcePattern::Exact(gvr) => gvr.clone(),
        ResourcePattern::GroupResource { group, resource } => {
            GroupVersionResource::new(group, "v1", resource)
        }
        ResourcePattern::All | ResourcePattern::Group(_) => return false,
    };
    !cache.caches(&gvr)
}

fn preload(cache: &mut Settings, patterns: impl IntoIterator<Item = ResourcePattern>) {
    for pattern in patterns {
        if !cache.preload.contains(&pattern) {
            cache.preload.push(pattern);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(resources: &[&str], groups: &[&str], users: &[&str]) -> DegradedReads {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        DegradedReads {
            resources: resources
                .iter()
                .map(|p| ResourcePattern::parse(p).unwrap())
                .collect(),
            groups: texts(groups),
            users: texts(users),
        }
    }

    #[test]
    fn reads_are_for_those_who_are_named() {
        let degraded = Degraded {
            reads: vec![
                reads(&["pods", "*.apps"], &["system:nodes"], &["ingress"]),
                reads(&["services"], &["*"], &[]),
                reads(&["*"], &["admins"], &[]),
                reads(&["secrets"], &["vault"], &[]),
            ],
            after: Duration::from_secs(5),
            bounds: DegradedBounds {
                max_age: Duration::from_secs(600),
                authorization: DegradedAuthorization::Cached,
            },
        };
        let gvr = |group: &str, resource: &str| GroupVersionResource::new(group, "v1", resource);
        for (resource, name, groups, expected) in [
            (gvr("", "pods"), "node-1", vec!["system:nodes"], true),
            (gvr("", "pods"), "ingress", vec![], true),
            (gvr("", "pods"), "eve", vec!["others"], false),
            (gvr("", "pods"), "system:nodes", vec![], false),
            (gvr("apps", "deployments"), "ingress", vec![], true),
            (gvr("", "services"), "eve", vec![], true),
            (gvr("", "configmaps"), "ingress", vec![], false),
            (gvr("", "configmaps"), "ann", vec!["admins"], true),
            (gvr("", "secrets"), "ann", vec!["admins"], false),
            (gvr("", "secrets"), "key", vec!["vault"], true),
            (gvr("example.com", "secrets"), "ann", vec!["admins"], true),
        ] {
            let user = UserInfo {
                name: name.to_owned(),
                groups: groups.iter().map(|g| (*g).to_owned()).collect(),
                ..UserInfo::default()
            };
            let named = degraded.names(&resource, &user);
            assert_eq!(named, expected, "{resource} {name} {groups:?}");
        }
        assert!(degraded.names_resource(&gvr("", "secrets")));
    }
}
