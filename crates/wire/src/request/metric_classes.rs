//! How requests are counted: the labels and classes of k8s.io/apiserver
//! `endpoints/metrics` and of its in-flight and timeout filters.

use super::RequestInfo;
use super::metric_labels::{Scope, Verb};

/// Subresources that carry a stream of their own.
const CONNECT_SUBRESOURCES: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

const APPLY_PATCH: &[u8] = b"application/apply-patch+yaml";

impl RequestInfo {
    /// Whether the request may stay open: it has no deadline and is not counted
    /// among those in flight.
    pub fn is_long_running(&self) -> bool {
        matches!(self.verb.as_str(), "watch" | "proxy")
            || self.is_connect()
            || !self.is_resource_request && self.path.starts_with("/debug/pprof/")
    }

    /// Everything that is not read-only, as the in-flight limits divide requests.
    pub fn is_mutating(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// The `scope` label.
    pub fn scope(&self) -> Scope {
        Scope::of(
            self.is_resource_request,
            &self.verb,
            &self.namespace,
            &self.name,
        )
    }

    /// The `verb` label. The content type tells APPLY from PATCH.
    pub fn metric_verb(&self, content_type: Option<&[u8]>) -> Verb {
        Verb::of(
            &self.method,
            self.scope(),
            self.verb == "watch" || self.asks_watch,
            content_type.is_some_and(|value| value.starts_with(APPLY_PATCH)),
            self.is_connect(),
        )
    }

    /// Whether the subresource carries a stream of its own.
    fn is_connect(&self) -> bool {
        self.is_resource_request && CONNECT_SUBRESOURCES.contains(&self.subresource.as_str())
    }
}
