//! What a path names (apiserver `endpoints/request/requestinfo.go`, which also
//! says that unknown paths are non-resource requests).

use percent_encoding::percent_decode_str;

#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    Root,
    Version,
    /// `healthz`, `livez` or `readyz`, and the single check asked for.
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
pub struct Target {
    pub group: String,
    pub version: String,
    /// Empty without a namespace in the path.
    pub namespace: String,
    pub resource: String,
    /// Empty for collections.
    pub name: String,
    pub subresource: String,
    /// The legacy `/watch/` paths.
    pub watch: bool,
}

impl Route {
    pub fn parse(path: &str) -> Self {
        let parts: Vec<String> = path
            .trim_matches('/')
            .split('/')
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            [""] => Self::Root,
            ["version"] => Self::Version,
            [probe @ ("healthz" | "livez" | "readyz")] => Self::Health((*probe).to_owned(), None),
            [probe @ ("healthz" | "livez" | "readyz"), check] => {
                Self::Health((*probe).to_owned(), Some((*check).to_owned()))
            }
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApiV3(None),
            ["openapi", "v3", rest @ ..] => Self::OpenApiV3(Some(rest.join("/"))),
            ["api"] => Self::Core,
            ["apis"] => Self::Groups,
            ["api", version] => Self::GroupVersion(String::new(), (*version).to_owned()),
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version] => {
                Self::GroupVersion((*group).to_owned(), (*version).to_owned())
            }
            ["api", version, rest @ ..] => target("", version, rest),
            ["apis", group, version, rest @ ..] => target(group, version, rest),
            _ => Self::Unknown,
        }
    }
}

fn target(group: &str, version: &str, rest: &[&str]) -> Route {
    let mut target = Target {
        group: group.to_owned(),
        version: version.to_owned(),
        ..Target::default()
    };
    let mut rest = rest;
    if let ["watch", tail @ ..] = rest
        && !tail.is_empty()
    {
        target.watch = true;
        rest = tail;
    }
    // /namespaces/N is the namespace itself, /namespaces/N/status its
    // subresource; everything longer is in the namespace.
    if let ["namespaces", namespace, tail @ ..] = rest
        && !tail.is_empty()
        && !matches!(tail, ["status" | "finalize"])
    {
        target.namespace = (*namespace).to_owned();
        rest = tail;
    }
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, "", ""),
        [resource, name] => (*resource, *name, ""),
        [resource, name, subresource] => (*resource, *name, *subresource),
        _ => return Route::Unknown,
    };
    target.resource = resource.to_owned();
    target.name = name.to_owned();
    target.subresource = subresource.to_owned();
    Route::Resource(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let at = |path: &str| match Route::parse(path) {
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
            ("/api/v1/namespaces/a/pods/b/log", "|a|pods|b|log"),
            (
                "/apis/apps/v1/namespaces/a/deployments/b",
                "apps|a|deployments|b|",
            ),
            ("/api/v1/watch/namespaces/a/pods", "|a|pods||"),
            ("/apis/apps", "Group(\"apps\")"),
            ("/", "Root"),
            ("/foo", "Unknown"),
        ] {
            assert_eq!(at(path), expected, "{path}");
        }
    }
}
