//! `cache.degraded`: the reads that go on while no API server can be reached.

use std::time::Duration;

use apifront_watch_cache::ResourcePattern;
use kubernetes_wire::api::{GroupVersionResource, UserInfo};

use crate::authz::{DegradedBounds, NamedCallers};

/// The reads that go on in degraded mode, and its limits. There is at least one read.
#[derive(Clone, Debug, PartialEq)]
pub struct Degraded {
    pub reads: Vec<DegradedReads>,
    /// The mode begins when no API server could be reached for this time.
    pub after: Duration,
    pub bounds: DegradedBounds,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DegradedReads {
    pub resources: Vec<ResourcePattern>,
    pub callers: NamedCallers,
}

impl DegradedReads {
    /// Secrets are chosen only by their name, never by a pattern for many resources.
    fn names_resource(&self, gvr: &GroupVersionResource) -> bool {
        let secret = gvr.group.is_empty() && gvr.resource == "secrets";
        let mut named = self.resources.iter().filter(|p| p.matches(gvr));
        named.any(|pattern| !secret || pattern.names_one_resource())
    }
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
        named.any(|reads| reads.callers.names(user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::DegradedAuthorization;

    fn reads(resources: &[&str], groups: &[&str], users: &[&str]) -> DegradedReads {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        DegradedReads {
            resources: resources
                .iter()
                .map(|p| ResourcePattern::parse(p).unwrap())
                .collect(),
            callers: NamedCallers {
                users: texts(users),
                groups: texts(groups),
            },
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
