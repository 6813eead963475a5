//! The names of spans, as in kube-apiserver (k8s.io/apiserver
//! `endpoints/filters/traces.go`).

use http::Method;
use kubernetes_wire::request::RequestInfo;

/// The most bytes of a name. A path that nothing serves may be longer.
const MAX_BYTES: usize = 512;

/// Returns the name of a request's span, without namespaces and names of objects.
pub(super) fn of_request(info: &RequestInfo) -> String {
    let method = method(&info.method);
    if !info.is_resource_request {
        return method.to_owned();
    }
    let mut name = format!("{method} /{}", info.api_prefix);
    let placeholder = |set: &String, text| if set.is_empty() { "" } else { text };
    for segment in [
        info.gvr.group.as_str(),
        &info.gvr.version,
        placeholder(&info.namespace, "namespaces/{:namespace}"),
        &info.gvr.resource,
        placeholder(&info.name, "{:name}"),
        &info.subresource,
    ] {
        if !segment.is_empty() {
            name.push('/');
            name.push_str(segment);
        }
    }
    name.truncate(name.floor_char_boundary(MAX_BYTES));
    name
}

/// Returns the name of the span for a request to upstream.
pub(super) fn of_forwarded(method: &Method) -> &'static str {
    match *method {
        Method::GET => "HTTP GET",
        Method::POST => "HTTP POST",
        Method::PUT => "HTTP PUT",
        Method::PATCH => "HTTP PATCH",
        Method::DELETE => "HTTP DELETE",
        Method::HEAD => "HTTP HEAD",
        Method::OPTIONS => "HTTP OPTIONS",
        _ => "HTTP",
    }
}

/// Returns a method of HTTP, or one word for all others: a caller may invent any
/// number of methods.
pub(super) fn method(method: &Method) -> &'static str {
    match of_forwarded(method).split_once(' ') {
        Some((_, method)) => method,
        None => "HTTP",
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::Query;

    use super::*;

    #[test]
    fn names_hold_no_names() {
        for (method, path, name) in [
            ("GET", "/api/v1/pods", "GET /api/v1/pods"),
            (
                "GET",
                "/api/v1/namespaces/a/pods/b/log",
                "GET /api/v1/namespaces/{:namespace}/pods/{:name}/log",
            ),
            (
                "POST",
                "/apis/apps/v1/namespaces/a/deployments",
                "POST /apis/apps/v1/namespaces/{:namespace}/deployments",
            ),
            ("GET", "/api/v1/nodes/n", "GET /api/v1/nodes/{:name}"),
            ("GET", "/version", "GET"),
            ("BREW", "/api/v1/pods", "HTTP /api/v1/pods"),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let info = RequestInfo::parse(&method, path, &Query::default()).unwrap();
            assert_eq!(of_request(&info), name);
        }
        let long = format!("/api/v1/{}", "\u{e9}".repeat(1000));
        let info = RequestInfo::parse(&Method::GET, &long, &Query::default()).unwrap();
        assert!(of_request(&info).len() <= MAX_BYTES);
    }
}
