//! How requests are counted: the labels and classes of k8s.io/apiserver
//! `endpoints/metrics` and of its in-flight and timeout filters.

use super::RequestInfo;

/// Subresources that carry a stream of their own.
const CONNECT_SUBRESOURCES: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

/// Methods that have a verb label of their own; any other is `other`.
const LABELLED_METHODS: [&str; 6] = ["CONNECT", "DELETE", "PATCH", "POST", "PUT", "WATCH"];

const APPLY_PATCH: &str = "application/apply-patch+yaml";

impl RequestInfo {
    /// Whether the request may stay open: it has no deadline and is not counted
    /// among those in flight.
    pub fn is_long_running(&self) -> bool {
        matches!(self.verb.as_str(), "watch" | "proxy")
            || self.is_resource_request && CONNECT_SUBRESOURCES.contains(&self.subresource.as_str())
            || !self.is_resource_request && self.path.starts_with("/debug/pprof/")
    }

    /// Everything that is not read-only, as the in-flight limits divide requests.
    pub fn is_mutating(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// The `scope` label: `resource`, `namespace`, `cluster` or empty.
    pub fn scope(&self) -> &'static str {
        if !self.name.is_empty() || self.verb == "create" {
            "resource"
        } else if !self.namespace.is_empty() {
            "namespace"
        } else if self.is_resource_request {
            "cluster"
        } else {
            ""
        }
    }

    /// The `verb` label. The content type tells APPLY from PATCH.
    pub fn metric_verb(&self, content_type: Option<&str>) -> &'static str {
        let method = self.method.as_str();
        if self.verb == "watch" && self.is_verb_via_path() {
            return "WATCH";
        }
        if self.is_resource_request && CONNECT_SUBRESOURCES.contains(&self.subresource.as_str()) {
            return "CONNECT";
        }
        match method {
            "PATCH" if content_type == Some(APPLY_PATCH) => "APPLY",
            "GET" if self.asks_watch => "WATCH",
            "GET" | "HEAD" if matches!(self.scope(), "resource" | "") => "GET",
            "GET" | "HEAD" => "LIST",
            _ => LABELLED_METHODS
                .iter()
                .find(|m| **m == method)
                .copied()
                .unwrap_or("other"),
        }
    }
}
