//! Reads from method, path and query what a request is about, as k8s.io/apiserver
//! does in `endpoints/request/requestinfo.go`. Authorization, routing and metrics
//! all depend on the result, so it must agree with kube-apiserver's even for paths that
//! nobody serves.

use http::Method;

use super::path;
use crate::api::{Attributes, GroupVersionResource, ListOptions, Query};

/// The prefixes of resource paths. Paths under the first have no group.
const API_PREFIXES: [&str; 2] = ["api", "apis"];

/// The verbs that legacy paths contain: `/api/v1/watch/pods`.
pub(super) const PATH_VERBS: [&str; 2] = ["proxy", "watch"];

/// The subresources of a namespace: `/namespaces/N/status` is about the
/// namespace, `/namespaces/N/pods` is not.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// The verbs whose selectors an authorizer may see (KEP-4601).
const VERBS_WITH_SELECTORS: [&str; 3] = ["list", "watch", "deletecollection"];

/// Why a request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestInfoError {
    /// A malformed escape. Go's HTTP server answers 400 before the request reaches
    /// a handler.
    #[error("invalid URL escape in the path")]
    BadEscape,
    /// `/api/v1/watch` alone. kube-apiserver answers 500 with this text,
    /// followed by the URL.
    #[error("unable to determine kind and namespace from url")]
    NoKind,
}

/// The information of a request that authorization, routing and metrics need
/// (`request.RequestInfo` of k8s.io/apiserver).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The HTTP method.
    pub method: Method,
    /// The path, percent-decoded.
    pub path: String,
    /// The verb in lower case. For non-resource requests it is the HTTP method. It
    /// is empty for a method that resources do not have.
    pub verb: String,
    /// True if the path is one of a resource, below `/api/VERSION` or
    /// `/apis/GROUP/VERSION`.
    pub is_resource_request: bool,
    /// `api`, `apis` or empty.
    pub api_prefix: &'static str,
    /// The resource. All its parts are empty for non-resource requests.
    pub gvr: GroupVersionResource,
    /// The namespace. For `/namespaces/N` it is N, too.
    pub namespace: String,
    /// The name from the path, or from a `metadata.name=` field selector of a
    /// list or watch.
    pub name: String,
    /// The subresource, such as `status`. It is empty for the resource itself.
    pub subresource: String,
    /// Resource, name, subresource and all segments that follow.
    pub parts: Vec<String>,
    /// The selector as written. Only list, watch and deletecollection have one.
    pub field_selector: String,
    /// The label selector as written, like `field_selector`.
    pub label_selector: String,
    canonical: bool,
    /// True if `watch` or `proxy` is in the path: `/api/v1/watch/pods`.
    verb_via_path: bool,
    /// The `watch` query parameter. Metrics use it for every verb.
    pub(super) asks_watch: bool,
}

impl RequestInfo {
    /// Reads a request. `path` is the path of the request line, without the
    /// query.
    ///
    /// ```
    /// use http::Method;
    /// use kubernetes_wire::api::Query;
    /// use kubernetes_wire::request::RequestInfo;
    ///
    /// let query = Query::parse("watch=true&fieldSelector=metadata.name%3Dweb");
    /// let path = "/apis/apps/v1/namespaces/shop/deployments";
    /// let info = RequestInfo::parse(&Method::GET, path, &query)?;
    /// assert!(info.is_resource_request);
    /// assert_eq!(info.verb, "watch");
    /// assert_eq!(info.gvr.to_string(), "deployments.v1.apps");
    /// assert_eq!(info.namespace, "shop");
    /// // The field selector names the one object.
    /// assert_eq!(info.name, "web");
    ///
    /// let info = RequestInfo::parse(&Method::GET, "/healthz", &Query::default())?;
    /// assert!(!info.is_resource_request);
    /// # Ok::<(), kubernetes_wire::request::RequestInfoError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The path has a malformed escape, or is a legacy watch of nothing.
    pub fn parse(method: &Method, path: &str, query: &Query) -> Result<Self, RequestInfoError> {
        let decoded = path::decode(path).ok_or(RequestInfoError::BadEscape)?;
        let mut info = Self {
            method: method.clone(),
            verb: method.as_str().to_ascii_lowercase(),
            is_resource_request: false,
            api_prefix: "",
            gvr: GroupVersionResource::new("", "", ""),
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
            parts: Vec::new(),
            field_selector: String::new(),
            label_selector: String::new(),
            canonical: path::is_canonical(path),
            verb_via_path: false,
            asks_watch: query.truthy("watch"),
            path: decoded.clone(),
        };
        info.read_path(&path::split(&decoded))?;
        if info.is_resource_request {
            info.read_query(query);
        }
        Ok(info)
    }

    fn read_path(&mut self, parts: &[&str]) -> Result<(), RequestInfoError> {
        if parts.len() < 3 {
            return Ok(());
        }
        let Some((first, mut rest)) = parts.split_first() else {
            return Ok(());
        };
        let Some(prefix) = API_PREFIXES.iter().find(|p| *p == first) else {
            return Ok(());
        };
        self.api_prefix = prefix;
        if *prefix == "apis" {
            match rest {
                [group, tail @ ..] if tail.len() >= 2 => {
                    self.gvr.group = (*group).to_owned();
                    rest = tail;
                }
                _ => return Ok(()),
            }
        }
        let Some((version, mut rest)) = rest.split_first() else {
            return Ok(());
        };
        self.is_resource_request = true;
        self.gvr.version = (*version).to_owned();

        match rest {
            [verb] if PATH_VERBS.contains(verb) => return Err(RequestInfoError::NoKind),
            [verb, tail @ ..] if PATH_VERBS.contains(verb) => {
                self.verb = (*verb).to_owned();
                self.verb_via_path = true;
                rest = tail;
            }
            _ => self.verb = resource_verb(&self.method).to_owned(),
        }

        if let ["namespaces", namespace, tail @ ..] = rest {
            self.namespace = (*namespace).to_owned();
            if tail
                .first()
                .is_some_and(|next| !NAMESPACE_SUBRESOURCES.contains(next))
            {
                rest = tail;
            }
        }

        self.parts = rest.iter().map(|p| (*p).to_owned()).collect();
        let part = |i: usize| self.parts.get(i).cloned().unwrap_or_default();
        self.gvr.resource = part(0);
        self.name = part(1);
        // After a proxied name comes the path behind the proxy.
        if self.verb != "proxy" {
            self.subresource = part(2);
        }
        Ok(())
    }

    fn read_query(&mut self, query: &Query) {
        if self.name.is_empty() && self.verb == "get" {
            // If the options do not decode, only the field selector is ignored
            // here. The handler reports the error.
            let options = query
                .get("fieldSelector")
                .filter(|selector| selector.contains("metadata.name"))
                .and_then(|_| ListOptions::from_query(query).ok());
            self.verb = if self.asks_watch { "watch" } else { "list" }.to_owned();
            let name = options
                .as_ref()
                .and_then(|o| o.field_selector.required("metadata.name"));
            if let Some(name) = name.filter(|name| is_path_segment_name(name)) {
                self.name = name.to_owned();
            }
        }
        if self.name.is_empty() && self.verb == "delete" {
            self.verb = "deletecollection".to_owned();
        }
        // A legacy path's watch of one object ignores selectors, so no selector may
        // be authorized for it.
        if !self.verb_via_path && VERBS_WITH_SELECTORS.contains(&self.verb.as_str()) {
            let text = |key| query.get(key).unwrap_or_default().to_owned();
            self.field_selector = text("fieldSelector");
            self.label_selector = text("labelSelector");
        }
    }

    /// Tells whether the path is canonical. Only then is it certain how
    /// kube-apiserver's router reads it: the router handles `//`, `..`, a slash at the
    /// end and escapes in its own way.
    pub fn is_canonical(&self) -> bool {
        self.canonical
    }

    /// Tells whether the path is a legacy one that contains its verb:
    /// `/api/v1/watch/…`.
    pub fn is_verb_via_path(&self) -> bool {
        self.verb_via_path
    }

    /// Returns the attributes by which an authorizer decides.
    pub fn attributes(&self) -> Attributes {
        if self.is_resource_request {
            Attributes::Resource {
                verb: self.verb.clone(),
                gvr: self.gvr.clone(),
                namespace: self.namespace.clone(),
                name: self.name.clone(),
                subresource: self.subresource.clone(),
                field_selector: self.field_selector.clone(),
                label_selector: self.label_selector.clone(),
            }
        } else {
            Attributes::NonResource {
                verb: self.verb.clone(),
                path: self.path.clone(),
            }
        }
    }
}

fn resource_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// Like apimachinery's `content.IsPathSegmentName`.
fn is_path_segment_name(name: &str) -> bool {
    name != "." && name != ".." && !name.contains(['/', '%'])
}
