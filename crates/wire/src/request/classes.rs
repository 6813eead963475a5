//! Classes of requests: long-running, mutating, connections to others. They are those of
//! k8s.io/apiserver's `endpoints/metrics`, and of its in-flight and timeout filters.

use super::RequestInfo;

/// Subresources that carry a stream.
const CONNECT_SUBRESOURCES: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

impl RequestInfo {
    /// Tells whether the request may stay open. A long-running request has no
    /// deadline and is not counted as in flight.
    pub fn is_long_running(&self) -> bool {
        matches!(self.verb.as_str(), "watch" | "proxy")
            || self.is_connect()
            || !self.is_resource_request && self.path.starts_with("/debug/pprof/")
    }

    /// Tells whether the request is not read-only. The in-flight limits distinguish
    /// requests in this way.
    pub fn is_mutating(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Tells whether kube-apiserver hands an upgraded connection over: to a
    /// kubelet, a pod or a service. Logs are streams that it writes itself.
    pub fn takes_upgrades(&self) -> bool {
        self.is_connect() && self.subresource != "log"
    }

    pub(super) fn is_connect(&self) -> bool {
        self.is_resource_request && CONNECT_SUBRESOURCES.contains(&self.subresource.as_str())
    }
}
