//! Names of resources in configuration: `deployments.apps`, `*.apps`, `*`.

use std::fmt;

use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::api::dns_name::is_dns_label;

/// One or more resources, written as in `kubectl`:
/// `RESOURCE[.VERSION][.GROUP]`.
///
/// A name without a group means the core group. `events` alone means the events of
/// both groups (core and events.k8s.io): they are one resource with two names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourcePattern {
    /// `*`
    All,
    /// `*.apps`
    Group(String),
    /// `pods`, `deployments.apps`
    GroupResource { group: String, resource: String },
    /// `pods.v1`, `deployments.v1.apps`
    Exact(GroupVersionResource),
}

impl ResourcePattern {
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::All);
        }
        let (resource, rest) = text.split_once('.').unwrap_or((text, ""));
        if text.ends_with('.') || (resource != "*" && !is_dns_label(resource)) {
            return None;
        }
        let (version, group) = match rest.split_once('.') {
            _ if rest.is_empty() => (None, ""),
            None if is_version(rest) => (Some(rest), ""),
            Some((version, group)) if is_version(version) => (Some(version), group),
            _ => (None, rest),
        };
        if !group.is_empty() && !group.split('.').all(is_dns_label) {
            return None;
        }
        match (resource, version) {
            ("*", Some(_)) => None,
            ("*", None) => (!group.is_empty()).then(|| Self::Group(group.to_owned())),
            (_, Some(version)) => Some(Self::Exact(GroupVersionResource::new(
                group, version, resource,
            ))),
            (_, None) => Some(Self::GroupResource {
                group: group.to_owned(),
                resource: resource.to_owned(),
            }),
        }
    }

    pub fn matches(&self, gvr: &GroupVersionResource) -> bool {
        match self {
            Self::All => true,
            Self::Group(group) => *group == gvr.group,
            Self::GroupResource { group, resource } => {
                *resource == gvr.resource
                    && (*group == gvr.group
                        || (group.is_empty()
                            && resource == "events"
                            && gvr.group == "events.k8s.io"))
            }
            Self::Exact(exact) => exact == gvr,
        }
    }

    pub fn names_one_resource(&self) -> bool {
        matches!(self, Self::GroupResource { .. } | Self::Exact(_))
    }
}

/// Tells whether the text is a version, like `v1` or `v2beta1`. This distinguishes
/// `pods.v1` from `deployments.apps`.
fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    let major = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if major.len() == rest.len() {
        return false;
    }
    let stage = major
        .strip_prefix("alpha")
        .or_else(|| major.strip_prefix("beta"));
    match stage {
        None => major.is_empty(),
        Some(n) => !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()),
    }
}

impl fmt::Display for ResourcePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Group(group) => write!(f, "*.{group}"),
            Self::GroupResource { group, resource } if group.is_empty() => f.write_str(resource),
            Self::GroupResource { group, resource } => write!(f, "{resource}.{group}"),
            Self::Exact(gvr) => gvr.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_name() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let deployments = GroupVersionResource::new("apps", "v1", "deployments");
        let routes = GroupVersionResource::new("gateway.networking.k8s.io", "v1beta1", "routes");
        let new_events = GroupVersionResource::new("events.k8s.io", "v1", "events");
        for (text, gvr, expected) in [
            ("*", &deployments, true),
            ("pods", &pods, true),
            ("pods", &deployments, false),
            ("pods.v1", &pods, true),
            ("pods.v2", &pods, false),
            ("deployments", &deployments, false),
            ("deployments.apps", &deployments, true),
            ("deployments.v1.apps", &deployments, true),
            ("deployments.v1beta1.apps", &deployments, false),
            ("*.apps", &deployments, true),
            ("*.apps", &pods, false),
            ("routes.gateway.networking.k8s.io", &routes, true),
            ("routes.v1beta1.gateway.networking.k8s.io", &routes, true),
            ("events", &new_events, true),
        ] {
            let pattern = ResourcePattern::parse(text).unwrap();
            assert_eq!(pattern.matches(gvr), expected, "{text}");
            assert_eq!(pattern.to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            ".",
            "pods.",
            ".apps",
            "*.",
            "*.v1",
            "*.v1.apps",
            "Pods",
            "a*",
            "pods..apps",
            "apps/v1",
            "-a",
        ] {
            assert_eq!(ResourcePattern::parse(text), None, "{text}");
        }
    }
}
