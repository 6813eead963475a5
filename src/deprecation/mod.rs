//! Deprecated APIs and the warnings about them (KEP-1693).
//!
//! Upstream itself sends a warning with every answer of an API that it deprecates.
//! Forwarded answers carry that warning. Cached answers carry the warnings that
//! upstream sent with the list or watch from which they come. These become wrong
//! when upstream changes to another release; the table of built-in kinds tells when.
//! The configuration adds warnings for extension servers that send none.

mod built_in_kinds;
mod configured;
mod custom_resources;
mod lifecycle;
mod settings;

use std::time::{Duration, Instant};

use http::{HeaderValue, StatusCode};
use parking_lot::RwLock;
use tokio::sync::Notify;

pub use built_in_kinds::BuiltInKinds;
pub use lifecycle::{BuiltInWarning, Lifecycle};
pub use settings::Deprecation;

use apifront_source::Source;
use apifront_upstream::Upstream;
use configured::Kinds;
use custom_resources::CustomVersions;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource, Release, warning};

use crate::metrics::DeprecationMetrics;

/// The time limit of a request for `/version` or a discovery document, which are
/// small.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested {
    pub removed: Option<Release>,
}

impl Requested {
    /// Returns the annotations that kube-apiserver adds to the request's audit
    /// event.
    pub fn annotations(&self) -> impl Iterator<Item = (&'static str, String)> {
        let removed = self.removed.map(|release| release.to_string());
        let removed = removed.map(|release| ("k8s.io/removed-release", release));
        [("k8s.io/deprecated", "true".to_owned())]
            .into_iter()
            .chain(removed)
    }
}

/// The deprecations that are known at runtime.
pub struct Deprecations {
    table: &'static BuiltInKinds,
    release: RwLock<Option<Release>>,
    kinds: Kinds,
    custom: CustomVersions,
    metrics: DeprecationMetrics,
    wake: Notify,
}

impl Deprecations {
    pub fn new(metrics: DeprecationMetrics) -> Self {
        Self {
            table: BuiltInKinds::built_in(),
            release: RwLock::default(),
            kinds: Kinds::default(),
            custom: CustomVersions::default(),
            metrics,
            wake: Notify::new(),
        }
    }

    /// Wakes the learning task, because the configuration or upstream changed.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Resolves after [`Deprecations::wake`]. Cancel-safe.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    pub fn release(&self) -> Option<Release> {
        *self.release.read()
    }

    /// Forgets the release, because the next upstream may have another.
    pub fn upstream_replaced(&self) {
        *self.release.write() = None;
    }

    /// Asks upstream for its release. The known release stays if there is no answer.
    pub async fn learn_release(&self, upstream: &Upstream) {
        if let Ok(Some(release)) =
            tokio::time::timeout(REQUEST_TIMEOUT, upstream.recent_release()).await
        {
            *self.release.write() = Some(release);
        }
    }

    /// Asks a server for the kinds of a version that the configuration names.
    pub async fn learn_kinds(&self, upstream: &Upstream, group_version: &GroupVersion) {
        let asked = self.kinds.learn(upstream, group_version);
        if !matches!(
            tokio::time::timeout(REQUEST_TIMEOUT, asked).await,
            Ok(Some(()))
        ) {
            tracing::debug!(%group_version, "kinds of a deprecated version not known");
        }
    }

    /// Forgets the kinds of versions that the configuration does not name.
    pub fn forget_kinds(&self, entries: &[Deprecation]) {
        self.kinds
            .retain(|v| entries.iter().any(|e| e.group_version == *v));
    }

    /// Returns the warnings for an answer from the cache, as upstream would send
    /// them now. `learnt` are the warnings that came with the cached data.
    pub fn of_cached(
        &self,
        gvr: &GroupVersionResource,
        learnt: &[HeaderValue],
        entries: &[Deprecation],
    ) -> Vec<HeaderValue> {
        let mut warnings = learnt.to_vec();
        if let Some((deprecated, lifecycle)) = self.table.judge(gvr, self.release()) {
            let is_it = |w: &HeaderValue| {
                warning::text(w).is_some_and(|text| lifecycle.is_warned_of_by(&text))
            };
            match deprecated {
                // Upstream's own text is best.
                true if warnings.iter().any(is_it) => {}
                true => warning::add(&mut warnings, &lifecycle.warning()),
                false => warnings.retain(|w| !is_it(w)),
            }
        }
        if let Some(lifecycle) = self.configured(entries, gvr, "") {
            warning::add(&mut warnings, &lifecycle.warning());
        }
        warnings
    }

    pub fn configured(
        &self,
        entries: &[Deprecation],
        gvr: &GroupVersionResource,
        subresource: &str,
    ) -> Option<Lifecycle> {
        if entries.is_empty() {
            return None;
        }
        self.kinds
            .lifecycle(entries, gvr, subresource, self.release())
    }

    /// Reads a resource's definition, if the warnings of an answer cannot be
    /// understood without it.
    pub async fn study(
        &self,
        upstream: &dyn Source,
        gvr: &GroupVersionResource,
        warnings: &[HeaderValue],
    ) {
        if warnings.is_empty() {
            return;
        }
        let may_be_custom = gvr.group.contains('.') && !self.table.has_group(&gvr.group);
        let puzzling = |text: String| self.custom.is_puzzled_by(gvr, &text, Instant::now());
        if may_be_custom && warnings.iter().filter_map(warning::text).any(puzzling) {
            self.custom.learn(upstream, gvr).await;
        }
    }

    /// Returns the deprecated API that the warnings of an answer name. A deprecated
    /// API sends its warning with all its answers, errors included. An answer from
    /// before the API was reached has none.
    pub fn requested(
        &self,
        gvr: &GroupVersionResource,
        subresource: &str,
        status: StatusCode,
        warnings: &[HeaderValue],
        entries: &[Deprecation],
    ) -> Option<Requested> {
        let configured = self.configured(entries, gvr, subresource);
        let configured = configured.map(|lifecycle| (lifecycle.warning(), lifecycle.removed));
        warnings.iter().filter_map(warning::text).find_map(|text| {
            if let Some((own, removed)) = &configured
                && *own == text
            {
                return Some(Requested { removed: *removed });
            }
            match self.custom.understand(gvr, &text) {
                // For custom resources, kube-apiserver counts only requests that
                // have a handler.
                Some(own) => (own
                    && self.custom.has(gvr, subresource)
                    && status != StatusCode::METHOD_NOT_ALLOWED)
                    .then_some(Requested { removed: None }),
                None => {
                    let read = BuiltInWarning::read(&text)?;
                    // A subresource's kind may belong to another group.
                    let ours = GroupVersion::parse(read.api_version)
                        .is_some_and(|v| v.group == gvr.group && v.version == gvr.version);
                    (ours || !subresource.is_empty()).then_some(Requested {
                        removed: read.removed,
                    })
                }
            }
        })
    }

    pub fn count(&self, gvr: &GroupVersionResource, subresource: &str, requested: Requested) {
        let removed = requested.removed.map(|release| release.to_string());
        self.metrics
            .requested(gvr, subresource, removed.as_deref().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;

    fn deprecations(minor: Option<u32>) -> Deprecations {
        let metrics = DeprecationMetrics::register(&Registry::new(), Default::default()).unwrap();
        let known = Deprecations::new(metrics);
        *known.release.write() = minor.map(|minor| (1, minor).into());
        known
    }

    fn headers(texts: &[&str]) -> Vec<HeaderValue> {
        texts
            .iter()
            .filter_map(|text| warning::header(text))
            .collect()
    }

    const ENDPOINTS: &str =
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    const REWORDED: &str = "v1 Endpoints is deprecated in v1.33+";

    #[test]
    fn cached_answers_warn_as_upstream_would_now() {
        let endpoints = GroupVersionResource::new("", "v1", "endpoints");
        let other = "something else";
        for (minor, learnt, expected) in [
            (Some(36), &[ENDPOINTS][..], &[ENDPOINTS][..]),
            // Upstream's own text.
            (Some(36), &[REWORDED], &[REWORDED]),
            // Upstream was upgraded or downgraded since then.
            (Some(36), &[other], &[other, ENDPOINTS]),
            (Some(32), &[ENDPOINTS, other], &[other]),
            // The table does not know this release.
            (None, &[], &[]),
            (None, &[ENDPOINTS], &[ENDPOINTS]),
            (Some(99), &[], &[]),
        ] {
            let warnings = deprecations(minor).of_cached(&endpoints, &headers(learnt), &[]);
            assert_eq!(warnings, headers(expected), "{minor:?} {learnt:?}");
        }
    }

    #[test]
    fn the_configuration_adds_what_nobody_says() {
        let known = deprecations(Some(36));
        let entry = |deprecated| Deprecation {
            group_version: GroupVersion::parse("example.com/v1beta1").unwrap(),
            kind: Some("Widget".into()),
            deprecated: (1, deprecated),
            removed: Some((1, 38)),
            replacement: Some("example.com/v1 Widget".into()),
        };
        let widgets = GroupVersionResource::new("example.com", "v1beta1", "widgets");
        let text = "example.com/v1beta1 Widget is deprecated in v1.30+, \
                    unavailable in v1.38+; use example.com/v1 Widget";
        for learnt in [&[][..], &[text]] {
            let warnings = known.of_cached(&widgets, &headers(learnt), &[entry(30)]);
            assert_eq!(warnings, headers(&[text]));
            let requested = known.requested(&widgets, "", StatusCode::OK, &warnings, &[entry(30)]);
            let annotations: Vec<_> = requested.unwrap().annotations().collect();
            let expected = [
                ("k8s.io/deprecated", "true"),
                ("k8s.io/removed-release", "1.38"),
            ];
            assert_eq!(annotations, expected.map(|(k, v)| (k, v.to_owned())));
        }
        assert!(known.of_cached(&widgets, &[], &[entry(37)]).is_empty());
    }

    #[test]
    fn only_warnings_of_the_api_itself_count() {
        let known = deprecations(Some(36));
        let removed = |minor| {
            Some(Requested {
                removed: Some((1, minor).into()),
            })
        };
        let claims =
            "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+";
        let eviction = "policy/v1beta1 Eviction is deprecated in v1.22+, unavailable in v1.25+";
        for (group, version, resource, subresource, text, expected) in [
            (
                "",
                "v1",
                "endpoints",
                "",
                ENDPOINTS,
                Some(Requested { removed: None }),
            ),
            (
                "resource.k8s.io",
                "v1beta1",
                "resourceclaims",
                "status",
                claims,
                removed(38),
            ),
            // The subresource's kind belongs to another group.
            ("", "v1", "pods", "eviction", eviction, removed(25)),
            ("", "v1", "pods", "", eviction, None),
            ("", "v1", "pods", "", "unknown field \"spec.x\"", None),
        ] {
            let gvr = GroupVersionResource::new(group, version, resource);
            let found = known.requested(
                &gvr,
                subresource,
                StatusCode::CREATED,
                &headers(&[text]),
                &[],
            );
            assert_eq!(found, expected, "{gvr} {text}");
        }
    }
}
