//! The label values of a request, named as kube-apiserver names them
//! (k8s.io/apiserver `endpoints/metrics`).

use http::Method;

use super::RequestInfo;

const APPLY_PATCH: &[u8] = b"application/apply-patch+yaml";

/// The `verb` label. It has no DELETECOLLECTION: kube-apiserver counts the HTTP
/// method and reports it as DELETE with another scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// `GET`: a read of one object, or of something that is no resource.
    Get,
    /// `LIST`: a read of a collection.
    List,
    /// `WATCH`
    Watch,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`, except server-side apply.
    Patch,
    /// `APPLY`: a server-side apply.
    Apply,
    /// `DELETE` of an object or a collection.
    Delete,
    /// `CONNECT`: a request for a subresource that carries a stream.
    Connect,
    /// `other`: any other method.
    Other,
}

impl RequestInfo {
    /// Returns the `scope` label.
    pub fn scope(&self) -> ScopeLabel {
        ScopeLabel::for_attributes(
            self.is_resource_request,
            &self.verb,
            &self.namespace,
            &self.name,
        )
    }

    /// Returns the `verb` label. The content type distinguishes APPLY from
    /// PATCH.
    pub fn metric_verb(&self, content_type: Option<&[u8]>) -> Verb {
        Verb::for_request(
            &self.method,
            self.scope(),
            self.verb == "watch" || self.asks_watch,
            content_type.is_some_and(|value| value.starts_with(APPLY_PATCH)),
            self.is_connect(),
        )
    }
}

impl Verb {
    /// The number of values.
    pub const COUNT: usize = 10;

    /// Returns the label's value. `watch`: the request asks for a watch; `apply`:
    /// the body is an apply patch; `connect`: the subresource is attach, exec, log,
    /// portforward or proxy.
    pub(crate) fn for_request(
        method: &Method,
        scope: ScopeLabel,
        watch: bool,
        apply: bool,
        connect: bool,
    ) -> Self {
        if connect {
            return Self::Connect;
        }
        match *method {
            Method::GET | Method::HEAD if watch => Self::Watch,
            Method::GET | Method::HEAD => match scope {
                ScopeLabel::Resource | ScopeLabel::None => Self::Get,
                ScopeLabel::Namespace | ScopeLabel::Cluster => Self::List,
            },
            Method::POST => Self::Post,
            Method::PUT => Self::Put,
            Method::PATCH if apply => Self::Apply,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            Method::CONNECT => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Returns the text of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::List => "LIST",
            Self::Watch => "WATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Apply => "APPLY",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Other => "other",
        }
    }
}

/// The `scope` label: the part of a resource that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScopeLabel {
    /// One object, or a create.
    Resource,
    /// The collection in a namespace.
    Namespace,
    /// The collection in the whole cluster.
    Cluster,
    /// Not a resource request.
    None,
}

impl ScopeLabel {
    /// The number of values.
    pub const COUNT: usize = 4;

    /// Returns the label's value. `verb` is the lower-case verb of the
    /// request's attributes.
    pub(crate) fn for_attributes(
        is_resource: bool,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> Self {
        if !name.is_empty() || verb == "create" {
            Self::Resource
        } else if !namespace.is_empty() {
            Self::Namespace
        } else if is_resource {
            Self::Cluster
        } else {
            Self::None
        }
    }

    /// Returns the text of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Namespace => "namespace",
            Self::Cluster => "cluster",
            Self::None => "",
        }
    }
}

/// The `dry_run` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DryRun {
    /// The request has no `dryRun`.
    No,
    /// `dryRun=All`: nothing is stored.
    All,
    /// A value that kube-apiserver refuses.
    Invalid,
}

impl DryRun {
    /// The number of values.
    pub const COUNT: usize = 3;

    /// Returns the label's value for all `dryRun` values in the query.
    pub fn from_values<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut dry_run = Self::No;
        for value in values {
            match value {
                "All" => dry_run = Self::All,
                _ => return Self::Invalid,
            }
        }
        dry_run
    }

    /// Returns the text of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "",
            Self::All => "All",
            Self::Invalid => "invalid",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_those_of_kube_apiserver() {
        use ScopeLabel::{Cluster, Namespace, None, Resource};
        for (method, scope, watch, apply, connect, expected) in [
            (Method::GET, Resource, false, false, false, "GET"),
            (Method::GET, Namespace, false, false, false, "LIST"),
            (Method::HEAD, Cluster, false, false, false, "LIST"),
            (Method::GET, None, false, false, false, "GET"),
            (Method::GET, Cluster, true, false, false, "WATCH"),
            (Method::GET, Resource, false, false, true, "CONNECT"),
            (Method::PATCH, Resource, false, true, false, "APPLY"),
            (Method::PATCH, Resource, false, false, false, "PATCH"),
            (Method::DELETE, Namespace, false, false, false, "DELETE"),
            (Method::OPTIONS, Cluster, false, false, false, "other"),
        ] {
            let verb = Verb::for_request(&method, scope, watch, apply, connect);
            assert_eq!(verb.as_str(), expected, "{method} {scope:?}");
        }
        assert_eq!(
            ScopeLabel::for_attributes(true, "create", "ns", ""),
            Resource
        );
        assert_eq!(
            ScopeLabel::for_attributes(true, "list", "ns", ""),
            Namespace
        );
        assert_eq!(ScopeLabel::for_attributes(true, "list", "", ""), Cluster);
        assert_eq!(ScopeLabel::for_attributes(false, "get", "", ""), None);
        assert_eq!(
            DryRun::from_values(["All", "x"].into_iter()),
            DryRun::Invalid
        );
    }
}
