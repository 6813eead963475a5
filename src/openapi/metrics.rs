//! Metrics of OpenAPI: clients' requests, and checks of servers' documents.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

#[derive(Clone, Debug)]
pub struct OpenApiMetrics {
    requests: IntCounterVec,
    checks: IntCounterVec,
    kept: IntGauge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    V2,
    V3Root,
    V3Document,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V3Root => "v3_root",
            Self::V3Document => "v3_document",
        }
    }
}

impl OpenApiMetrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "apifront_openapi_requests_total",
                    "Requests for OpenAPI documents by document (v2, v3_root, v3_document) and by whether they were answered from memory (answered), forwarded, or the backend that has the document did not give it (unavailable).",
                ),
                &["document", "result"],
            )?,
            checks: IntCounterVec::new(
                Opts::new(
                    "apifront_openapi_checks_total",
                    "Questions to the servers of OpenAPI documents by server (empty for upstream, else the backend), document and result (changed, unchanged, not_found, failed).",
                ),
                &["backend", "document", "result"],
            )?,
            kept: IntGauge::new(
                "apifront_openapi_kept_bytes",
                "Bytes of OpenAPI v3 documents of group versions that are kept in memory.",
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.checks.clone()))?;
        registry.register(Box::new(metrics.kept.clone()))?;
        Ok(metrics)
    }

    pub(super) fn request(&self, kind: Kind, result: &str) {
        let labels = &[kind.as_str(), result];
        self.requests.with_label_values(labels).inc();
    }

    /// Counts a check. `backend` is a configured name.
    pub(super) fn check(&self, backend: &str, kind: Kind, result: &str) {
        let labels = &[backend, kind.as_str(), result];
        self.checks.with_label_values(labels).inc();
    }

    pub(super) fn kept(&self, bytes: u64) {
        self.kept.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}
