//! A policy, and which of its rules matches a request. It follows k8s.io/apiserver
//! `audit/policy/checker.go`, also where the fields' documentation says less.

use kubernetes_wire::api::UserInfo;
use kubernetes_wire::request::RequestInfo;

use super::level::{Level, Stage, Stages};

/// A policy's decision about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub level: Level,
    pub omit_stages: Stages,
    pub omit_managed_fields: bool,
}

impl Decision {
    pub fn omits(self, stage: Stage) -> bool {
        self.omit_stages.contains(stage)
    }

    pub(super) fn omitting(self, stage: Stage) -> Self {
        let omit_stages = self.omit_stages.with(stage);
        Self {
            omit_stages,
            ..self
        }
    }
}

/// The rules in order; the first rule that matches decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(super) rules: Vec<Rule>,
    /// The decision if no rule matches.
    pub(super) otherwise: Decision,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) decision: Decision,
    /// The names of users. Empty means any, as in all of these lists.
    pub(super) users: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Everything,
    Resources {
        /// The empty string means resources without a namespace.
        namespaces: Vec<String>,
        resources: Vec<GroupResources>,
    },
    Paths(Vec<PathPattern>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupResources {
    /// `None` is `*`.
    pub(super) group: Option<String>,
    pub(super) resources: Vec<ResourcePattern>,
    pub(super) names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResourcePattern {
    /// `*`: every resource and subresource.
    Any,
    /// `pods`, without its subresources.
    Resource(String),
    /// `pods/log`.
    Subresource(String, String),
    /// `*/scale`.
    SubresourceOfAny(String),
    /// `pods/*`: every subresource of pods, and pods themselves.
    AllOf(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathPattern {
    Exact(String),
    /// `/healthz*` without the asterisk. For `*` it is empty.
    Prefix(String),
}

impl Policy {
    /// Returns the decision about a request. It runs for every request, so it
    /// allocates nothing.
    pub fn decide(&self, info: &RequestInfo, user: Option<&UserInfo>) -> Decision {
        self.rules
            .iter()
            .find(|rule| rule.matches(info, user))
            .map_or(self.otherwise, |rule| rule.decision)
    }

    /// Tells whether any request may leave an event.
    pub fn records(&self) -> bool {
        self.rules.iter().any(|r| r.decision.level > Level::None)
    }

    pub(super) fn new(rules: Vec<Rule>, omit_stages: Stages, omit_managed_fields: bool) -> Self {
        Self {
            rules,
            otherwise: Decision {
                level: Level::None,
                omit_stages,
                omit_managed_fields,
            },
        }
    }
}

fn listed(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == value)
}

fn unless_listed(list: &[String], value: &str) -> bool {
    !list.is_empty() && !listed(list, value)
}

impl Rule {
    fn matches(&self, info: &RequestInfo, user: Option<&UserInfo>) -> bool {
        if !self.users.is_empty() && !user.is_some_and(|u| listed(&self.users, &u.name)) {
            return false;
        }
        let in_a_group = |u: &UserInfo| u.groups.iter().any(|g| listed(&self.groups, g));
        if !self.groups.is_empty() && !user.is_some_and(in_a_group) {
            return false;
        }
        if unless_listed(&self.verbs, &info.verb) {
            return false;
        }
        match &self.target {
            Target::Everything => true,
            Target::Resources {
                namespaces,
                resources,
            } => {
                info.is_resource_request
                    && !unless_listed(namespaces, &info.namespace)
                    && (resources.is_empty() || resources.iter().any(|r| r.matches(info)))
            }
            Target::Paths(patterns) => {
                !info.is_resource_request && patterns.iter().any(|p| p.matches(&info.path))
            }
        }
    }
}

impl GroupResources {
    fn matches(&self, info: &RequestInfo) -> bool {
        let group = self.group.as_ref();
        if group.is_some_and(|group| *group != info.gvr.group) {
            return false;
        }
        self.resources.is_empty()
            || !unless_listed(&self.names, &info.name)
                && self.resources.iter().any(|pattern| pattern.matches(info))
    }
}

impl ResourcePattern {
    pub(super) fn parse(text: &str) -> Self {
        match text.split_once('/') {
            None if text == "*" => Self::Any,
            None => Self::Resource(text.to_owned()),
            Some(("*", subresource)) => Self::SubresourceOfAny(subresource.to_owned()),
            Some((resource, "*")) => Self::AllOf(resource.to_owned()),
            Some((resource, subresource)) => {
                Self::Subresource(resource.to_owned(), subresource.to_owned())
            }
        }
    }

    fn matches(&self, info: &RequestInfo) -> bool {
        let (resource, subresource) = (&info.gvr.resource, &info.subresource);
        match self {
            Self::Any => true,
            Self::Resource(wanted) => wanted == resource && subresource.is_empty(),
            Self::Subresource(wanted, sub) => {
                wanted == resource && sub == subresource && !sub.is_empty()
            }
            Self::SubresourceOfAny(sub) => sub == subresource && !sub.is_empty(),
            Self::AllOf(wanted) => wanted == resource,
        }
    }
}

impl PathPattern {
    pub(super) fn parse(text: &str) -> Self {
        if text.ends_with('*') {
            Self::Prefix(text.trim_end_matches('*').to_owned())
        } else {
            Self::Exact(text.to_owned())
        }
    }

    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(wanted) => wanted == path,
            Self::Prefix(prefix) => path.starts_with(prefix.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use kubernetes_wire::api::Query;

    use super::*;

    fn level(rule: &str, method: Method, uri: &str, user: Option<&UserInfo>) -> bool {
        let text = format!(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {{level: Metadata, {rule}}}"
        );
        let policy = super::super::policy_file::parse(&text).expect("a policy").0;
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let info = RequestInfo::parse(&method, path, &Query::parse(query)).expect("a request");
        policy.decide(&info, user).level == Level::Metadata
    }

    /// The cases of `checker_test.go`, and cases from `checker.go` that it does not
    /// test.
    #[test]
    fn rules_match_as_in_kube_apiserver() {
        let tess = UserInfo {
            name: "tess".to_owned(),
            groups: vec!["humans".to_owned(), "testers".to_owned()],
            ..UserInfo::default()
        };
        let pods = "/api/v1/namespaces/default/pods/busybox";
        for (rule, uri, expected) in [
            ("", pods, true),
            ("users: [tess]", pods, true),
            ("users: [bob]", pods, false),
            ("userGroups: [testers, x]", pods, true),
            ("userGroups: [admins]", pods, false),
            ("verbs: [get]", pods, true),
            ("verbs: [list, create]", pods, false),
            ("namespaces: [default]", pods, true),
            ("namespaces: ['']", pods, false),
            ("namespaces: ['']", "/api/v1/nodes/a", true),
            ("namespaces: ['']", "/metrics", false),
            ("resources: [{resources: [pods]}]", pods, true),
            ("resources: [{group: apps, resources: [pods]}]", pods, false),
            ("resources: [{group: '*', resources: [pods]}]", pods, true),
            ("resources: [{group: ''}]", pods, true),
            ("resources: [{}]", "/apis/apps/v1/deployments", false),
            (
                "resources: [{resources: [pods], resourceNames: [busybox]}]",
                pods,
                true,
            ),
            (
                "resources: [{resources: [pods], resourceNames: [other]}]",
                pods,
                false,
            ),
            ("resources: [{resources: [pods/log]}]", pods, false),
            (
                "resources: [{resources: [pods/log]}]",
                "/api/v1/namespaces/d/pods/a/log",
                true,
            ),
            (
                "resources: [{resources: [pods]}]",
                "/api/v1/namespaces/d/pods/a/log",
                false,
            ),
            (
                "resources: [{resources: ['*']}]",
                "/api/v1/namespaces/d/pods/a/log",
                true,
            ),
            (
                "resources: [{resources: ['pods/*']}]",
                "/api/v1/namespaces/d/pods/a/log",
                true,
            ),
            ("resources: [{resources: ['pods/*']}]", pods, true),
            (
                "resources: [{resources: ['*/log']}]",
                "/api/v1/namespaces/d/pods/a/log",
                true,
            ),
            ("resources: [{resources: ['*/log']}]", pods, false),
            ("resources: [{resources: ['*/*']}]", pods, false),
            ("resources: [{resources: [pods]}]", "/metrics", false),
            ("nonResourceURLs: ['*']", "/metrics", true),
            ("nonResourceURLs: ['*']", pods, false),
            ("nonResourceURLs: [/healthz*]", "/healthz/etcd", true),
            ("nonResourceURLs: [/healthz*]", "/healthzx", true),
            ("nonResourceURLs: [/healthz]", "/healthz/etcd", false),
            ("nonResourceURLs: [/healthz/*]", "/healthz", false),
        ] {
            let found = level(rule, Method::GET, uri, Some(&tess));
            assert_eq!(found, expected, "{rule} and {uri}");
        }
        assert!(!level("users: [tess]", Method::GET, pods, None));
        assert!(!level("userGroups: [testers]", Method::GET, pods, None));
        assert!(level("verbs: [create]", Method::POST, pods, None));
    }
}
