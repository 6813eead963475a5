//! Deprecated versions of custom resources, read from their definitions.
//!
//! Upstream itself warns about them, but the author of a definition may choose the
//! text. So only the definition tells whether a warning is about a deprecated
//! version.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use apifront_source::{BodyLimit, JSON, ReadKind, Source};
use http::StatusCode;
use kubernetes_wire::api::GroupVersionResource;
use parking_lot::RwLock;
use serde::Deserialize;

/// The longest time for which an answer waits for a definition. The metric is not
/// worth more.
const DEFINITION_TIMEOUT: Duration = Duration::from_secs(2);

/// The shortest time between two requests for a definition that does not explain a
/// warning. Otherwise writes whose answers carry unrelated warnings would cause a
/// request each.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// The most versions that are kept. No cluster warns about as many. Beyond this, all
/// are forgotten and learnt again.
const MAX_VERSIONS: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CustomVersion {
    /// `None` if the version is not deprecated.
    warning: Option<ExpectedWarning>,
    status: bool,
    scale: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ExpectedWarning {
    Own(String),
    /// The beginning of the default warning. A replacement may follow.
    Default(String),
}

impl CustomVersion {
    fn is_warned_of_by(&self, text: &str) -> bool {
        match &self.warning {
            Some(ExpectedWarning::Own(own)) => own == text,
            Some(ExpectedWarning::Default(beginning)) => text.starts_with(beginning),
            None => false,
        }
    }
}

struct LearntVersion {
    at: Instant,
    /// `None` if there is no definition or apifront may not read it.
    version: Option<CustomVersion>,
}

/// The known definitions. Only the definitions of resources whose answers had
/// warnings are read.
#[derive(Default)]
pub(super) struct CustomVersions(RwLock<HashMap<GroupVersionResource, LearntVersion>>);

impl CustomVersions {
    /// Tells whether the definition must be read to understand the warning.
    pub(super) fn is_puzzled_by(
        &self,
        gvr: &GroupVersionResource,
        text: &str,
        now: Instant,
    ) -> bool {
        self.0.read().get(gvr).is_none_or(|learnt| {
            let understood = learnt
                .version
                .as_ref()
                .is_some_and(|v| v.is_warned_of_by(text));
            !understood && now.saturating_duration_since(learnt.at) >= ASK_AGAIN
        })
    }

    /// Tells whether the warning is about a deprecated version. `None` if there is
    /// no definition.
    pub(super) fn understand(&self, gvr: &GroupVersionResource, text: &str) -> Option<bool> {
        let known = self.0.read();
        let version = known.get(gvr)?.version.as_ref()?;
        Some(version.is_warned_of_by(text))
    }

    /// Tells whether the version has the subresource. A request for a missing one
    /// gets a 404, which carries the warning too.
    pub(super) fn has(&self, gvr: &GroupVersionResource, subresource: &str) -> bool {
        let known = self.0.read();
        let version = known.get(gvr).and_then(|learnt| learnt.version.as_ref());
        version.is_some_and(|version| match subresource {
            "" => true,
            "status" => version.status,
            "scale" => version.scale,
            _ => false,
        })
    }

    pub(super) async fn learn(&self, upstream: &dyn Source, gvr: &GroupVersionResource) {
        let asked = tokio::time::timeout(DEFINITION_TIMEOUT, ask(upstream, gvr)).await;
        let version = asked.ok().flatten();
        self.keep(gvr, version, Instant::now());
    }

    fn keep(&self, gvr: &GroupVersionResource, version: Option<CustomVersion>, at: Instant) {
        let mut known = self.0.write();
        if known.len() >= MAX_VERSIONS {
            known.clear();
        }
        known.insert(gvr.clone(), LearntVersion { at, version });
    }
}

async fn ask(upstream: &dyn Source, gvr: &GroupVersionResource) -> Option<CustomVersion> {
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}",
        gvr.resource, gvr.group
    );
    let response = upstream.get(ReadKind::Discovery, &path, JSON).await.ok()?;
    if response.status() != StatusCode::OK {
        return None;
    }
    let body = response.into_body().collect_bytes(BodyLimit::DOCUMENT);
    let body = body.await.ok()?;
    parse(&body, gvr)
}

#[derive(Deserialize)]
struct Document {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    names: Names,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Names {
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: String,
    #[serde(default)]
    deprecated: bool,
    deprecation_warning: Option<String>,
    #[serde(default)]
    subresources: Subresources,
}

#[derive(Default, Deserialize)]
struct Subresources {
    status: Option<serde::de::IgnoredAny>,
    scale: Option<serde::de::IgnoredAny>,
}

fn parse(body: &[u8], gvr: &GroupVersionResource) -> Option<CustomVersion> {
    let Spec { names, versions } = serde_json::from_slice::<Document>(body).ok()?.spec;
    let version = versions.into_iter().find(|v| v.name == gvr.version)?;
    let wording = match version.deprecation_warning {
        Some(own) => ExpectedWarning::Own(own),
        None => ExpectedWarning::Default(format!(
            "{} {} is deprecated",
            gvr.group_version(),
            names.kind
        )),
    };
    Some(CustomVersion {
        warning: version.deprecated.then_some(wording),
        status: version.subresources.status.is_some(),
        scale: version.subresources.scale.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = r#"{"spec": {"names": {"kind": "Widget"}, "versions": [
        {"name": "v1", "subresources": {"status": {}}},
        {"name": "v1beta1", "deprecated": true},
        {"name": "v1alpha1", "deprecated": true, "deprecationWarning": "do not"}]}}"#;

    fn widgets(version: &str) -> GroupVersionResource {
        GroupVersionResource::new("example.com", version, "widgets")
    }

    #[test]
    fn a_definition_tells_which_warnings_are_its_own() {
        let known = CustomVersions::default();
        let now = Instant::now();
        let default = "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget";
        for version in ["v1", "v1beta1", "v1alpha1"] {
            assert!(known.is_puzzled_by(&widgets(version), default, now));
            let gvr = widgets(version);
            known.keep(&gvr, parse(DEFINITION.as_bytes(), &gvr), now);
        }
        for (version, text, expected) in [
            ("v1", default, false),
            ("v1beta1", default, true),
            ("v1beta1", "unknown field \"spec.x\"", false),
            ("v1alpha1", "do not", true),
            ("v1alpha1", "do", false),
        ] {
            let gvr = widgets(version);
            assert_eq!(
                known.understand(&gvr, text),
                Some(expected),
                "{version} {text}"
            );
            let later = now + ASK_AGAIN;
            assert!(!known.is_puzzled_by(&gvr, text, now));
            assert_eq!(known.is_puzzled_by(&gvr, text, later), !expected);
        }
        assert!(known.has(&widgets("v1"), "status") && known.has(&widgets("v1"), ""));
        assert!(!known.has(&widgets("v1"), "scale") && !known.has(&widgets("v1"), "x"));
        let other = widgets("v2");
        known.keep(&other, parse(DEFINITION.as_bytes(), &other), now);
        assert_eq!(known.understand(&other, "do not"), None);
    }
}
