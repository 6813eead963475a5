//! Deprecations that the configuration adds (`apis.deprecations`), for extension
//! servers that do not warn about their own versions.

use std::collections::HashMap;

use apifront_upstream::{BodyLimit, Upstream, UpstreamKind};
use http::StatusCode;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource, Release};
use parking_lot::RwLock;
use serde::Deserialize;

use super::{Deprecation, Lifecycle};

/// The kinds of the group versions that the configuration names, by resource
/// (`flunders`) and subresource (`flunders/status`), as discovery lists them.
#[derive(Default)]
pub(super) struct Kinds(RwLock<HashMap<GroupVersion, HashMap<String, String>>>);

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    kind: String,
    /// The kind's group and version, if they differ from the resource's.
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
}

impl ApiResource {
    fn is_of(&self, group_version: &GroupVersion) -> bool {
        self.version.is_empty()
            || self.version == group_version.version && self.group == group_version.group
    }
}

impl Kinds {
    /// Asks a server for the kinds of a version. Known kinds stay if it does not
    /// answer.
    pub(super) async fn learn(
        &self,
        upstream: &Upstream,
        group_version: &GroupVersion,
    ) -> Option<()> {
        let path = group_version.path();
        let response = upstream.get(UpstreamKind::Discovery, &path).await.ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
        let body = body.await.ok()?;
        self.keep(group_version, &body)
    }

    fn keep(&self, group_version: &GroupVersion, document: &[u8]) -> Option<()> {
        let list: ResourceList = serde_json::from_slice(document).ok()?;
        let kinds = list.resources.into_iter();
        let kinds = kinds
            .filter(|r| r.is_of(group_version))
            .map(|r| (r.name, r.kind));
        let kinds = kinds.collect();
        self.0.write().insert(group_version.clone(), kinds);
        Some(())
    }

    pub(super) fn retain(&self, wanted: impl Fn(&GroupVersion) -> bool) {
        self.0.write().retain(|version, _| wanted(version));
    }

    /// Returns the configured lifecycle of a resource or subresource, if a server of
    /// this release deprecates it. An entry for the kind takes precedence over an
    /// entry for all kinds.
    pub(super) fn lifecycle(
        &self,
        entries: &[Deprecation],
        gvr: &GroupVersionResource,
        subresource: &str,
        release: Option<Release>,
    ) -> Option<Lifecycle> {
        let ours = |e: &&Deprecation| {
            e.group_version.group == gvr.group && e.group_version.version == gvr.version
        };
        let first = entries.iter().find(ours)?;
        let kind = match self.kind(&first.group_version, &gvr.resource, subresource) {
            Ok(kind) => kind?,
            // Discovery has not answered yet. Only the resource of a configured kind
            // can be guessed.
            Err(DiscoveryMissing) => {
                let named = entries.iter().filter(ours).filter_map(|e| e.kind.as_ref());
                let mut guessed = named.filter(|kind| plural(kind) == gvr.resource);
                guessed.next().filter(|_| subresource.is_empty())?.clone()
            }
        };
        let named = |e: &&Deprecation| e.kind.as_ref() == Some(&kind);
        let entry = entries.iter().filter(ours).find(named);
        let all = || entries.iter().filter(ours).find(|e| e.kind.is_none());
        let entry = entry.or_else(all)?;
        let lifecycle = Lifecycle {
            api_version: entry.group_version.to_string(),
            kind,
            deprecated: entry.deprecated.into(),
            removed: entry.removed.map(Into::into),
            replacement: entry.replacement.clone(),
        };
        lifecycle.is_deprecated_in(release).then_some(lifecycle)
    }

    fn kind(
        &self,
        group_version: &GroupVersion,
        resource: &str,
        subresource: &str,
    ) -> Result<Option<String>, DiscoveryMissing> {
        let known = self.0.read();
        let kinds = known.get(group_version).ok_or(DiscoveryMissing)?;
        Ok(if subresource.is_empty() {
            kinds.get(resource).cloned()
        } else {
            kinds.get(&format!("{resource}/{subresource}")).cloned()
        })
    }
}

#[derive(Debug)]
struct DiscoveryMissing;

/// Guesses a resource's name as Kubernetes does (apimachinery
/// `meta.UnsafeGuessKindToResource`).
fn plural(kind: &str) -> String {
    let one = kind.to_lowercase();
    if one.ends_with("endpoints") {
        return one;
    }
    match one.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if one.ends_with('s') => one + "es",
        None => one + "s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Option<&str>, deprecated: u32) -> Deprecation {
        Deprecation {
            group_version: GroupVersion::parse("wardle.example.com/v1alpha1").unwrap(),
            kind: kind.map(str::to_owned),
            deprecated: (1, deprecated),
            removed: None,
            replacement: None,
        }
    }

    #[test]
    fn kinds_are_found_by_discovery() {
        let kinds = Kinds::default();
        let entries = [
            entry(None, 20),
            entry(Some("Fischer"), 30),
            entry(Some("Policy"), 20),
        ];
        let find = |resource: &str, subresource: &str, minor: u32| {
            let gvr = GroupVersionResource::new("wardle.example.com", "v1alpha1", resource);
            let release = Some((1, minor).into());
            let found = kinds.lifecycle(&entries, &gvr, subresource, release);
            found.map(|l| format!("{} {}", l.kind, l.deprecated))
        };
        // Before discovery has answered, kinds are guessed.
        assert_eq!(find("fischers", "", 30).as_deref(), Some("Fischer 1.30"));
        assert_eq!(find("policies", "", 30).as_deref(), Some("Policy 1.20"));
        assert_eq!(find("fischers", "status", 30), None);
        assert_eq!(find("flunders", "", 30), None);
        let document = br#"{"kind":"APIResourceList","resources":[
            {"name":"fischers","kind":"Fischer","namespaced":false,"verbs":[]},
            {"name":"flunders","kind":"Flunder"},{"name":"flunders/status","kind":"Flunder"},
            {"name":"flunders/scale","kind":"Scale","group":"autoscaling","version":"v1"}]}"#;
        let version = GroupVersion::parse("wardle.example.com/v1alpha1").unwrap();
        assert_eq!(kinds.keep(&version, document), Some(()));
        for (resource, subresource, minor, expected) in [
            ("fischers", "", 30, Some("Fischer 1.30")),
            ("fischers", "", 29, None),
            ("fischers", "status", 30, None),
            ("flunders", "", 30, Some("Flunder 1.20")),
            ("flunders", "status", 30, Some("Flunder 1.20")),
            ("flunders", "scale", 30, None),
            ("made-up", "", 30, None),
        ] {
            let found = find(resource, subresource, minor);
            assert_eq!(
                found.as_deref(),
                expected,
                "{resource}/{subresource} {minor}"
            );
        }
        assert_eq!(kinds.keep(&version, b"<html>"), None);
        kinds.retain(|_| false);
        assert_eq!(find("flunders", "", 30), None);
    }
}
