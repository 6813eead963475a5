//! The names of resources that may be label values.
//!
//! Any caller can choose the name in a URL, and every label value is kept for ever.
//! So a label takes a [`KnownName`], which only this registry makes. It does so for
//! names that an answer proved to exist; a subresource needs a success of its own.
//! The number and length of names are limited, because a backend that accepts
//! everything could otherwise fill memory.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use apifront_shares::{Ledger, Limits};
use kubernetes_wire::api::dns_name::{MAX_LABEL, MAX_SUBDOMAIN};
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use parking_lot::RwLock;

use super::ResourceMetrics;

/// The most names with their own series. A large cluster with many CRDs has 2,000.
const MAX_NAMES: usize = 8192;

/// The most names in one group version, resources and subresources together. The
/// largest, the core group, has 40.
const MAX_OF_GROUP_VERSION: usize = 256;

/// A resource or subresource that was proven to exist.
#[derive(Clone)]
pub struct KnownName(Arc<Inner>);

struct Inner {
    gvr: GroupVersionResource,
    subresource: String,
    series: OnceLock<Arc<ResourceMetrics>>,
}

impl KnownName {
    pub fn gvr(&self) -> &GroupVersionResource {
        &self.0.gvr
    }

    pub fn subresource(&self) -> &str {
        &self.0.subresource
    }

    pub(super) fn series(&self, make: impl FnOnce() -> ResourceMetrics) -> Arc<ResourceMetrics> {
        self.0.series.get_or_init(|| Arc::new(make())).clone()
    }
}

impl PartialEq for KnownName {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KnownName {}

impl Hash for KnownName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

#[derive(Default)]
pub struct KnownNames(RwLock<Names>);

struct Names {
    by_resource: HashMap<GroupVersionResource, HashMap<String, KnownName>>,
    of_group_versions: Ledger<GroupVersion>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            by_resource: HashMap::new(),
            of_group_versions: Ledger::new(Limits::fixed(MAX_NAMES, MAX_OF_GROUP_VERSION)),
        }
    }
}

impl KnownNames {
    /// Returns a name that an earlier answer proved.
    pub fn find(&self, gvr: &GroupVersionResource, subresource: &str) -> Option<KnownName> {
        let names = self.0.read();
        names.by_resource.get(gvr)?.get(subresource).cloned()
    }

    /// Returns the name under which a request with this answer is counted. A success or
    /// an answer from the cache proves that the resource and the subresource exist. A
    /// known name is counted however the request ends, except with a 401.
    pub fn of_answer(
        &self,
        gvr: &GroupVersionResource,
        subresource: &str,
        code: u16,
        is_hit: bool,
    ) -> Option<KnownName> {
        let is_proof = is_hit || matches!(code, 101 | 200..=299 | 304);
        match code {
            _ if is_proof => self.prove(gvr, subresource),
            401 => None,
            _ => self.find(gvr, subresource),
        }
    }

    /// Returns a name that an answer proves now. `None` beyond the limits: the
    /// request is then counted without a name.
    pub fn prove(&self, gvr: &GroupVersionResource, subresource: &str) -> Option<KnownName> {
        if let Some(name) = self.find(gvr, subresource) {
            return Some(name);
        }
        let is_short = |text: &str, most: usize| text.len() <= most && is_plain(text);
        let fits = is_short(&gvr.group, MAX_SUBDOMAIN)
            && [&*gvr.version, &*gvr.resource, subresource]
                .iter()
                .all(|text| is_short(text, MAX_LABEL));
        if !fits {
            return None;
        }
        let mut names = self.0.write();
        let group_version = GroupVersion {
            group: gvr.group.clone(),
            version: gvr.version.clone(),
        };
        names
            .of_group_versions
            .allows(Some(&group_version), 1)
            .ok()?;
        let subresources = names.by_resource.entry(gvr.clone()).or_default();
        if let Some(name) = subresources.get(subresource) {
            // Another request added the name meanwhile.
            return Some(name.clone());
        }
        let name = KnownName(Arc::new(Inner {
            gvr: gvr.clone(),
            subresource: subresource.to_owned(),
            series: OnceLock::new(),
        }));
        subresources.insert(subresource.to_owned(), name.clone());
        names.of_group_versions.add(Some(&group_version), 1);
        Some(name)
    }
}

/// Tells whether the text has only the characters of Kubernetes' names. Others would
/// need quoting in the exposition.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gvr(group: &str, version: &str, resource: &str) -> GroupVersionResource {
        GroupVersionResource::new(group, version, resource)
    }

    #[test]
    fn only_what_was_proven_is_known() {
        let known = KnownNames::default();
        let pods = gvr("", "v1", "pods");
        assert!(known.find(&pods, "").is_none());
        let proven = known.prove(&pods, "").unwrap();
        assert!(known.find(&pods, "") == Some(proven));
        // A resource does not prove its subresource.
        assert!(known.find(&pods, "log").is_none());
        let log = known.prove(&pods, "log").unwrap();
        assert_eq!((log.gvr(), log.subresource()), (&pods, "log"));
    }

    #[test]
    fn a_backend_that_says_yes_to_everything_fills_its_own_share() {
        let known = KnownNames::default();
        for n in 0..10_000 {
            known.prove(&gvr("evil.io", "v1", &format!("r{n}")), "");
            known.prove(&gvr("evil.io", "v1", "r"), &format!("s{n}"));
        }
        assert_eq!(
            known.0.read().of_group_versions.total(),
            MAX_OF_GROUP_VERSION
        );
        assert!(known.prove(&gvr("", "v1", "pods"), "").is_some());
        for n in 0..10_000 {
            known.prove(&gvr("evil.io", &format!("v{n}"), "r"), "");
        }
        assert_eq!(known.0.read().of_group_versions.total(), MAX_NAMES);
        assert!(known.find(&gvr("", "v1", "pods"), "").is_some());
        let long = "x".repeat(MAX_LABEL + 1);
        for (group, version, resource, subresource) in [
            ("x", "v1", "r", &*long),
            ("x", "v1", &long, ""),
            ("x", &long, "r", ""),
            (&"x".repeat(MAX_SUBDOMAIN + 1), "v1", "r", ""),
            ("x", "v1", "\"r\"", ""),
            ("x", "v1", "r", "\n"),
        ] {
            let known = KnownNames::default();
            assert!(
                known
                    .prove(&gvr(group, version, resource), subresource)
                    .is_none()
            );
            assert!(known.0.read().by_resource.is_empty());
        }
    }
}
