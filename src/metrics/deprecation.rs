//! The metric of deprecated APIs that are in use.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes_wire::api::GroupVersionResource;
use parking_lot::Mutex;
use prometheus::{IntGaugeVec, Registry, register_int_gauge_vec_with_registry};

use super::{KnownName, KnownNames};

/// The most releases that warnings about one API may name. The release changes with
/// upgrades of the server, and a server may send any text.
const MAX_RELEASES: usize = 4;

#[derive(Clone)]
pub struct DeprecationMetrics {
    requested: IntGaugeVec,
    known: Arc<KnownNames>,
    releases: Arc<Mutex<HashMap<KnownName, Vec<String>>>>,
}

impl DeprecationMetrics {
    pub fn register(registry: &Registry, known: Arc<KnownNames>) -> prometheus::Result<Self> {
        Ok(Self {
            known,
            releases: Arc::default(),
            requested: register_int_gauge_vec_with_registry!(
                "apiserver_requested_deprecated_apis",
                "Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.",
                &[
                    "group",
                    "version",
                    "resource",
                    "subresource",
                    "removed_release"
                ],
                registry
            )?,
        })
    }

    /// Notes a request for a deprecated API. The warning in its answer proves that
    /// the names exist. `removed_release` may be empty.
    pub fn requested(&self, gvr: &GroupVersionResource, subresource: &str, removed_release: &str) {
        let Some(name) = self.known.prove(gvr, subresource) else {
            return;
        };
        let mut releases = self.releases.lock();
        let of_name = releases.entry(name.clone()).or_default();
        if !of_name.iter().any(|release| release == removed_release) {
            if of_name.len() >= MAX_RELEASES {
                return;
            }
            of_name.push(removed_release.to_owned());
        }
        let gvr = name.gvr();
        let labels = [
            &gvr.group,
            &gvr.version,
            &gvr.resource,
            name.subresource(),
            removed_release,
        ];
        self.requested.with_label_values(&labels).set(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a backend, which chooses the text of its warnings, could fill
    /// memory.
    #[test]
    fn the_releases_of_an_api_are_few() {
        let registry = Registry::new();
        let metrics = DeprecationMetrics::register(&registry, Arc::default()).unwrap();
        let gvr = GroupVersionResource::new("evil.io", "v1", "r");
        for n in 0..1000 {
            metrics.requested(&gvr, "", &format!("1.{n}"));
            metrics.requested(&gvr, &"x".repeat(64 + n), "");
        }
        assert_eq!(registry.gather()[0].get_metric().len(), MAX_RELEASES);
    }
}
