//! The objects that a request reads, if its caller was granted its attributes.
//!
//! kube-apiserver's authorizer sees the [`RequestInfo`](super::RequestInfo) that
//! was read from a path, and its router sees the path itself. The two differ for
//! paths that nobody serves: `/api/v1/namespaces/a/namespaces` is authorized as
//! "namespaces in a". So the scope is made from the attributes alone, and the path
//! must be the one at which kube-apiserver serves exactly this scope.

use super::request_info::PATH_VERBS;
use crate::api::{Attributes, GroupVersionResource};

/// One object, or all objects of a namespace or of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// The resource of the objects.
    pub gvr: &'a GroupVersionResource,
    /// The namespace in which the objects are stored. It is empty for
    /// cluster-scoped objects, and for all namespaces.
    pub namespace: &'a str,
    /// The name of the one object, empty for all objects.
    pub name: &'a str,
    /// The field selector as it was authorized, empty for none.
    pub field_selector: &'a str,
    /// The label selector as it was authorized, empty for none.
    pub label_selector: &'a str,
}

impl<'a> Scope<'a> {
    /// Returns the scope of a grant. `path` is the path as received, and
    /// `namespaced` says whether the resource is namespaced. The result is
    /// `None` if kube-apiserver serves nothing, or something else, at that
    /// path.
    pub fn from_grant(granted: &'a Attributes, namespaced: bool, path: &str) -> Option<Self> {
        let Attributes::Resource {
            verb,
            gvr,
            namespace,
            name,
            subresource,
            field_selector,
            label_selector,
        } = granted
        else {
            return None;
        };
        let legacy_watch = is_legacy_watch(gvr, path);
        // For a list, and a watch by a modern path, `name` comes from the field
        // selector.
        let one = match verb.as_str() {
            "get" => true,
            "list" => false,
            "watch" => legacy_watch && !name.is_empty(),
            _ => return None,
        };
        // kube-apiserver reads these words as verbs at any place of a resource.
        let is_verb = PATH_VERBS.contains(&gvr.resource.as_str());
        if is_verb || !subresource.is_empty() || one && name.is_empty() {
            return None;
        }
        // The authorizer sees a namespace object in the namespace of its own name.
        let itself = gvr.group.is_empty() && gvr.resource == "namespaces" && one;
        let stored_in = match (namespaced, namespace.is_empty()) {
            (true, false) => namespace.as_str(),
            (true, true) if !one => "",
            (false, true) if !itself => "",
            (false, false) if itself && namespace == name => "",
            _ => return None,
        };
        let scope = Self {
            gvr,
            namespace: stored_in,
            name,
            field_selector,
            label_selector,
        };
        scope.is_served_at(path, legacy_watch, one).then_some(scope)
    }

    /// Tells whether `path` is, byte for byte, the one path of this scope.
    fn is_served_at(&self, path: &str, legacy_watch: bool, one: bool) -> bool {
        let rest = under(self.gvr, path)
            .and_then(|rest| match legacy_watch {
                true => rest.strip_prefix("/watch"),
                false => Some(rest),
            })
            .and_then(|rest| match self.namespace {
                "" => Some(rest),
                namespace => segment(segment(rest, "namespaces")?, namespace),
            })
            .and_then(|rest| segment(rest, &self.gvr.resource))
            .and_then(|rest| match one {
                true => segment(rest, self.name),
                false => Some(rest),
            });
        rest == Some("")
    }
}

fn is_legacy_watch(gvr: &GroupVersionResource, path: &str) -> bool {
    under(gvr, path).is_some_and(|rest| rest.starts_with("/watch/"))
}

/// Returns the rest of a path after its group version.
fn under<'p>(gvr: &GroupVersionResource, path: &'p str) -> Option<&'p str> {
    let rest = match gvr.group.as_str() {
        "" => path.strip_prefix("/api")?,
        group => segment(path.strip_prefix("/apis")?, group)?,
    };
    segment(rest, &gvr.version)
}

/// Returns the rest of a path after `/segment`.
fn segment<'p>(path: &'p str, segment: &str) -> Option<&'p str> {
    let rest = path.strip_prefix('/')?.strip_prefix(segment)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::api::Query;
    use crate::request::RequestInfo;

    fn scope(target: &str, namespaced: bool) -> Option<String> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = RequestInfo::parse(&Method::GET, path, &Query::parse(query)).unwrap();
        let granted = info.attributes();
        let scope = Scope::from_grant(&granted, namespaced, path)?;
        Some(format!("{}/{}", scope.namespace, scope.name))
    }

    #[test]
    fn each_scope_has_one_path() {
        for (target, namespaced, expected) in [
            ("/api/v1/pods", true, "/"),
            ("/api/v1/namespaces/a/pods", true, "a/"),
            ("/api/v1/namespaces/a/pods/x", true, "a/x"),
            ("/api/v1/namespaces/a/pods?watch=1", true, "a/"),
            ("/api/v1/watch/pods", true, "/"),
            ("/api/v1/watch/namespaces/a/pods", true, "a/"),
            ("/api/v1/watch/namespaces/a/pods/x", true, "a/x"),
            ("/apis/apps/v1/deployments", true, "/"),
            ("/apis/apps/v1/namespaces/a/deployments/x", true, "a/x"),
            ("/api/v1/nodes", false, "/"),
            ("/api/v1/nodes/x", false, "/x"),
            ("/api/v1/watch/nodes/x", false, "/x"),
            ("/api/v1/namespaces", false, "/"),
            ("/api/v1/namespaces/a", false, "/a"),
            ("/api/v1/watch/namespaces", false, "/"),
            ("/api/v1/watch/namespaces/a", false, "/a"),
            // A name from the field selector is not in the path.
            ("/api/v1/nodes?fieldSelector=metadata.name=x", false, "/x"),
            (
                "/api/v1/namespaces?fieldSelector=metadata.name=a",
                false,
                "/a",
            ),
        ] {
            assert_eq!(
                scope(target, namespaced).as_deref(),
                Some(expected),
                "{target}"
            );
        }
    }

    #[test]
    fn no_scope_at_paths_that_nobody_serves() {
        for (target, namespaced) in [
            // The authorizer sees "namespaces in a".
            ("/api/v1/namespaces/a/namespaces", false),
            ("/api/v1/namespaces/a/namespaces/b", false),
            ("/api/v1/namespaces/a/namespaces/a", false),
            ("/api/v1/namespaces/a/namespaces?watch=1", false),
            ("/api/v1/watch/namespaces/a/namespaces", false),
            ("/api/v1/watch/namespaces/a/namespaces/a", false),
            ("/api/v1/namespaces/a/nodes", false),
            ("/api/v1/namespaces/a/nodes/x", false),
            ("/api/v1/pods/x", true),
            ("/api/v1/watch/pods/x", true),
            ("/api/v1/namespaces/a/pods/x/status", true),
            ("/api/v1/namespaces/a/pods/x/y/z", true),
            ("/api/v1/namespaces/a/status", false),
            ("/api/v1//pods", true),
            ("/api/v1/pods/", true),
            ("//api/v1/pods", true),
            ("/api/v1/namespaces//pods", true),
            ("/apis/apps/v1/watch/watch/deployments", true),
            ("/api/v1/proxy/namespaces/a/pods/x", true),
            ("/api/v1/namespaces/a/watch", true),
            ("/apis/apps/v1/namespaces/a/proxy", true),
            // A cluster-scoped resource at a path with a namespace.
            ("/api/v1/namespaces/a/pods", false),
        ] {
            assert_eq!(scope(target, namespaced), None, "{target}");
        }
    }
}
