//! The paths of discovery.

use kubernetes_wire::api::GroupVersion;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryPath {
    /// `/api` and `/api/`.
    Api,
    /// `/apis`
    Apis,
    /// `/apis/`, at which no `APIGroupDiscoveryList` is served.
    ApisSlash,
    /// `/apis/apps`
    Group(String),
    /// `/api/v1`, `/apis/apps/v1`
    Version(GroupVersion),
}

impl DiscoveryPath {
    /// Returns `None` for other paths, and for unusual characters, which are left to
    /// upstream.
    pub fn parse(path: &str) -> Option<Self> {
        let version = |group: &str, version: &str| {
            Self::Version(GroupVersion {
                group: group.to_owned(),
                version: version.to_owned(),
            })
        };
        let plain = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
                && !text.starts_with('.')
        };
        match path {
            "/api" | "/api/" => return Some(Self::Api),
            "/apis" => return Some(Self::Apis),
            "/apis/" => return Some(Self::ApisSlash),
            _ => {}
        }
        let segments = |rest: &str| {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            let segments: Vec<String> = rest.split('/').map(str::to_owned).collect();
            segments.iter().all(|s| plain(s)).then_some(segments)
        };
        if let Some(rest) = path.strip_prefix("/apis/") {
            return match segments(rest)?.as_slice() {
                [group] => Some(Self::Group(group.clone())),
                [group, name] => Some(version(group, name)),
                _ => None,
            };
        }
        match segments(path.strip_prefix("/api/")?)?.as_slice() {
            [name] => Some(version("", name)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let version = |text: &str| {
            let parsed = GroupVersion::parse(text);
            Some(DiscoveryPath::Version(parsed.unwrap()))
        };
        for (path, expected) in [
            ("/api", Some(DiscoveryPath::Api)),
            ("/api/", Some(DiscoveryPath::Api)),
            ("/apis", Some(DiscoveryPath::Apis)),
            ("/apis/", Some(DiscoveryPath::ApisSlash)),
            ("/apis/apps", Some(DiscoveryPath::Group("apps".to_owned()))),
            ("/apis/apps/", Some(DiscoveryPath::Group("apps".to_owned()))),
            ("/apis/apps/v1", version("apps/v1")),
            ("/apis/apps/v1/", version("apps/v1")),
            ("/api/v1", version("v1")),
            ("/apis//", None),
            ("/apis/apps//", None),
            ("/apis/apps/v1/deployments", None),
            ("/apis/..", None),
            ("/apis/a%2Fb", None),
            ("//apis", None),
            ("/api/v1/pods", None),
            ("/apiserver", None),
        ] {
            assert_eq!(DiscoveryPath::parse(path), expected, "{path}");
        }
    }
}
