//! Routes: which request a path stands for. [`RequestInfo`] reads the paths of
//! resources; the others are read here.

use http::Method;
use kubernetes_wire::api::{Query, Reason, Status};
use kubernetes_wire::request::{RequestInfo, RequestInfoError};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    Root,
    Version,
    /// `healthz`, `livez` or `readyz`, and the single check that was requested.
    Health(String, Option<String>),
    OpenApiV2,
    /// The index, or the document of `api/v1`, `apis/apps/v1`, ….
    OpenApiV3(Option<String>),
    Core,
    Groups,
    Group(String),
    GroupVersion(String, String),
    Resource(Target),
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub group: String,
    pub version: String,
    /// Empty for objects without a namespace, including namespaces themselves.
    pub namespace: String,
    pub resource: String,
    /// Empty for collections.
    pub name: String,
    pub subresource: String,
    /// True for the legacy `/watch/` paths.
    pub watch: bool,
}

impl Route {
    /// Reads the route of a request. The error is the answer to a path that means
    /// nothing.
    pub(super) fn parse(method: &Method, path: &str, query: &Query) -> Result<Self, Status> {
        let info = RequestInfo::parse(method, path, query).map_err(|error| match error {
            RequestInfoError::BadEscape => Status::bad_request(error.to_string()),
            RequestInfoError::NoKind => {
                Status::failure(500, Reason::Unknown, format!("{error}, {path}"))
            }
        })?;
        Ok(if info.is_resource_request {
            resource(info)
        } else {
            non_resource(&info.path)
        })
    }
}

fn non_resource(path: &str) -> Route {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let owned = |part: &str| part.to_owned();
    match parts.as_slice() {
        [""] => Route::Root,
        ["version"] => Route::Version,
        [probe @ ("healthz" | "livez" | "readyz")] => Route::Health(owned(probe), None),
        [probe @ ("healthz" | "livez" | "readyz"), check] => {
            Route::Health(owned(probe), Some(owned(check)))
        }
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3"] => Route::OpenApiV3(None),
        ["openapi", "v3", rest @ ..] => Route::OpenApiV3(Some(rest.join("/"))),
        ["api"] => Route::Core,
        ["apis"] => Route::Groups,
        ["api", version] => Route::GroupVersion(String::new(), owned(version)),
        ["apis", group] => Route::Group(owned(group)),
        ["apis", group, version] => Route::GroupVersion(owned(group), owned(version)),
        _ => Route::Unknown,
    }
}

fn resource(info: RequestInfo) -> Route {
    let watch = info.verb == "watch" && info.is_verb_via_path();
    // Legacy paths of other verbs are not served, nor paths that continue after
    // a subresource.
    if info.parts.len() > 3 || (info.is_verb_via_path() && !watch) {
        return Route::Unknown;
    }
    // `RequestInfo` gives a namespace its own name as its namespace; here it has
    // none. A path may also put a namespace inside another one, which does not
    // exist.
    let inside = format!("/namespaces/{}/namespaces/", info.namespace);
    let inside = info.path.contains(&inside);
    let (name, namespace) = match info.parts.as_slice() {
        [resource, name, ..] if resource == "namespaces" && !inside => {
            (name.clone(), String::new())
        }
        // This is the path's name: `info.name` may come from a field selector.
        [_, name, ..] => (name.clone(), info.namespace),
        _ => (String::new(), info.namespace),
    };
    Route::Resource(Target {
        group: info.gvr.group,
        version: info.gvr.version,
        namespace,
        resource: info.gvr.resource,
        name,
        subresource: info.subresource,
        watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Result<Route, Status> {
        Route::parse(&Method::GET, path, &Query::default())
    }

    #[test]
    fn paths() {
        let shown = |path: &str| match at(path).unwrap() {
            Route::Resource(t) => {
                [t.group, t.namespace, t.resource, t.name, t.subresource].join("|")
            }
            other => format!("{other:?}"),
        };
        for (path, expected) in [
            ("/api/v1/pods", "||pods||"),
            ("/api/v1/namespaces", "||namespaces||"),
            ("/api/v1/namespaces/a", "||namespaces|a|"),
            ("/api/v1/namespaces/a/status", "||namespaces|a|status"),
            ("/api/v1/namespaces/a/pods/", "|a|pods||"),
            ("/api/v1/namespaces/a/namespaces", "|a|namespaces||"),
            ("/api/v1/namespaces/a/namespaces/a", "|a|namespaces|a|"),
            ("/api/v1/namespaces/namespaces", "||namespaces|namespaces|"),
            ("/api/v1/namespaces/a/pods/b/log", "|a|pods|b|log"),
            (
                "/apis/apps/v1/namespaces/a/deployments/b",
                "apps|a|deployments|b|",
            ),
            ("/api/v1/watch/namespaces/a/pods", "|a|pods||"),
            ("/api/v1/config%6Daps", "||configmaps||"),
            ("/api/v1/proxy/pods/a", "Unknown"),
            ("/api/v1/namespaces/a/pods/b/proxy/c", "Unknown"),
            ("/apis/apps", "Group(\"apps\")"),
            ("/", "Root"),
            ("/foo", "Unknown"),
        ] {
            assert_eq!(shown(path), expected, "{path}");
        }
    }

    #[test]
    fn only_a_path_names_one_object() {
        let query = Query::parse("fieldSelector=metadata.name%3Da");
        let route = Route::parse(&Method::GET, "/api/v1/pods", &query).unwrap();
        let Route::Resource(target) = route else {
            panic!("{route:?}");
        };
        assert_eq!(target.name, "");
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(at("/api/v1/pods/%zz").unwrap_err().code, 400);
        assert_eq!(at("/api/v1/watch").unwrap_err().code, 500);
    }
}
