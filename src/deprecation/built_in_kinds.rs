//! The deprecations of Kubernetes' built-in kinds, read from `kubernetes.txt`.
//! `tools/schema` (`make schema`) writes that file from the Go types. Its
//! lines:
//!
//! ```text
//! kubernetes v1.37.1                  the release
//! v1 endpoints Endpoints deprecated 1.33 removed 1.40 use apps/v1 Deployment
//! ```
//!
//! `removed` and `use` may be missing.

use std::collections::HashMap;
use std::sync::LazyLock;

use kubernetes_wire::api::{GroupVersion, GroupVersionResource, Release};

use super::Lifecycle;

/// The oldest release that agrees with the table about all kinds that it has.
const OLDEST: (u32, u32) = (1, 32);

/// The deprecations of one release, past and planned.
#[derive(Debug, Default)]
pub struct BuiltInKinds {
    release: Option<Release>,
    kinds: HashMap<GroupVersionResource, Lifecycle>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("deprecations: unreadable line: {0}")]
pub(super) struct Unreadable(String);

static BUILT_IN: LazyLock<BuiltInKinds> = LazyLock::new(|| {
    let read = BuiltInKinds::parse(include_str!("kubernetes.txt"));
    debug_assert!(read.is_ok(), "{:?}", read.as_ref().err());
    // A test reads the file, so this does not happen. Without the table, only
    // warnings learnt from upstream would be known.
    read.unwrap_or_default()
});

impl BuiltInKinds {
    /// Returns the deprecations of the release for which this program was built.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Returns the lifecycle of a kind that some release deprecates.
    pub fn lifecycle(&self, gvr: &GroupVersionResource) -> Option<&Lifecycle> {
        self.kinds.get(gvr)
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.kinds.keys().any(|gvr| gvr.group == group)
    }

    /// Tells whether a server of this release says that the kind is deprecated.
    /// `None` if the table cannot tell: later releases may differ, and 1.31 differed
    /// about alpha kinds.
    pub fn judge(
        &self,
        gvr: &GroupVersionResource,
        release: Option<Release>,
    ) -> Option<(bool, &Lifecycle)> {
        let lifecycle = self.lifecycle(gvr)?;
        let oldest = Release::from(OLDEST);
        let release = release.filter(|r| oldest <= *r && Some(*r) <= self.release)?;
        Some((lifecycle.is_deprecated_in(Some(release)), lifecycle))
    }

    fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut table = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let unreadable = || Unreadable(line.to_owned());
            if let Some(version) = line.strip_prefix("kubernetes v") {
                let minor = version.rsplit_once('.').map(|(minor, _patch)| minor);
                table.release = minor.and_then(Release::parse);
                continue;
            }
            let (gvr, lifecycle) = lifecycle(line).ok_or_else(unreadable)?;
            if table.kinds.insert(gvr, lifecycle).is_some() {
                return Err(unreadable());
            }
        }
        Ok(table)
    }
}

fn lifecycle(line: &str) -> Option<(GroupVersionResource, Lifecycle)> {
    let (facts, replacement) = match line.split_once(" use ") {
        Some((facts, replacement)) => (facts, Some(replacement.to_owned())),
        None => (line, None),
    };
    let mut words = facts.split(' ');
    let api_version = words.next()?;
    let group_version = GroupVersion::parse(api_version)?;
    let resource = words.next()?.to_owned();
    let kind = words.next()?.to_owned();
    let mut release = |word| match words.next() {
        Some(found) if found == word => words.next().and_then(Release::parse).map(Some),
        Some(_) => None,
        None => Some(None),
    };
    let deprecated = release("deprecated")??;
    let removed = release("removed")?;
    let lifecycle = Lifecycle {
        api_version: api_version.to_owned(),
        kind,
        deprecated,
        removed,
        replacement,
    };
    let GroupVersion { group, version } = group_version;
    let gvr = GroupVersionResource {
        group,
        version,
        resource,
    };
    words.next().is_none().then_some((gvr, lifecycle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(minor: u32) -> Option<Release> {
        Some((1, minor).into())
    }

    #[test]
    fn kinds_are_judged_by_the_servers_release() {
        let table = BuiltInKinds::parse(include_str!("kubernetes.txt")).unwrap();
        let endpoints = GroupVersionResource::new("", "v1", "endpoints");
        let claims = GroupVersionResource::new("resource.k8s.io", "v1beta2", "resourceclaims");
        let pods = GroupVersionResource::new("", "v1", "pods");
        for (gvr, minor, expected) in [
            (&endpoints, release(31), None),
            (&endpoints, release(32), Some(false)),
            (&endpoints, release(33), Some(true)),
            (&endpoints, release(36), Some(true)),
            // A release later than the table's, and an unknown release.
            (&endpoints, release(99), None),
            (&endpoints, None, None),
            (&claims, release(35), Some(false)),
            (&claims, release(36), Some(true)),
            (&pods, release(36), None),
        ] {
            let judged = table.judge(gvr, minor).map(|(deprecated, _)| deprecated);
            assert_eq!(judged, expected, "{gvr} {minor:?}");
        }
        assert_eq!(
            table.lifecycle(&claims).unwrap().warning(),
            "resource.k8s.io/v1beta2 ResourceClaim is deprecated in v1.36+, unavailable in v1.39+"
        );
    }

    #[test]
    fn other_lines_are_refused() {
        let fine = "v1 endpoints Endpoints deprecated 1.33";
        assert!(BuiltInKinds::parse(fine).is_ok());
        for bad in [
            "v1 endpoints Endpoints",
            "v1 endpoints Endpoints deprecated",
            "v1 endpoints Endpoints deprecated x",
            "v1 endpoints Endpoints removed 1.33",
            "v1 endpoints Endpoints deprecated 1.33 gone 1.35",
            "v1 endpoints Endpoints deprecated 1.33 removed 1.35 more",
            &format!("{fine}\n{fine}"),
        ] {
            assert!(BuiltInKinds::parse(bad).is_err(), "{bad}");
        }
    }
}
