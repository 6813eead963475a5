//! Deprecated APIs that are in use.

use prometheus::{IntGaugeVec, Registry};

use super::registered;
use crate::api::GroupVersionResource;

#[derive(Clone)]
pub struct DeprecationMetrics {
    requested: IntGaugeVec,
}

impl DeprecationMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            requested: registered!(
                registry,
                IntGaugeVec,
                "apiserver_requested_deprecated_apis",
                "Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.",
                &[
                    "group",
                    "version",
                    "resource",
                    "subresource",
                    "removed_release"
                ]
            ),
        })
    }

    /// The names are proven by the answer, `removed_release` may be empty.
    pub fn requested(&self, gvr: &GroupVersionResource, subresource: &str, removed_release: &str) {
        let labels = [
            &gvr.group,
            &gvr.version,
            &gvr.resource,
            subresource,
            removed_release,
        ];
        self.requested.with_label_values(&labels).set(1);
    }
}
