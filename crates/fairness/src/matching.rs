//! Decides whether a FlowSchema's rule matches a request (k8s.io/apiserver
//! `util/flowcontrol/rule.go`).

use kubernetes_wire::api::UserInfo;
use kubernetes_wire::request::RequestInfo;

use crate::objects::{NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule, Subject};

/// The wildcard. It counts only in the places where the API allows it.
const ALL: &str = "*";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A rule, prepared for fast matching.
#[derive(Debug)]
pub(crate) struct Rule {
    subjects: Vec<Callers>,
    resource_rules: Vec<ResourcePolicyRule>,
    non_resource_rules: Vec<NonResourcePolicyRule>,
}

/// The callers that a subject stands for.
#[derive(Debug)]
enum Callers {
    All,
    User(String),
    Group(String),
    /// The service account of this user name.
    ServiceAccount(String),
    /// The service accounts whose user names have this prefix.
    OfNamespace(String),
}

impl Rule {
    pub(crate) fn from_object(object: &PolicyRulesWithSubjects) -> Self {
        Self {
            subjects: object
                .subjects
                .iter()
                .filter_map(Callers::from_subject)
                .collect(),
            resource_rules: object.resource_rules.clone(),
            non_resource_rules: object.non_resource_rules.clone(),
        }
    }

    pub(crate) fn matches(&self, info: &RequestInfo, user: &UserInfo) -> bool {
        self.subjects.iter().any(|callers| callers.include(user))
            && match info.is_resource_request {
                true => self.resource_rules.iter().any(|rule| rule.matches(info)),
                false => self
                    .non_resource_rules
                    .iter()
                    .any(|rule| rule.matches(info)),
            }
    }
}

impl Callers {
    /// Returns the callers of a subject, or `None` if it has none.
    fn from_subject(subject: &Subject) -> Option<Self> {
        let named = |name: &String, callers: fn(String) -> Self| match name.as_str() {
            ALL => Self::All,
            _ => callers(name.clone()),
        };
        match subject.kind.as_str() {
            "User" => Some(named(&subject.user.as_ref()?.name, Self::User)),
            "Group" => Some(named(&subject.group.as_ref()?.name, Self::Group)),
            "ServiceAccount" => {
                let account = subject.service_account.as_ref()?;
                let prefix = format!("{SERVICE_ACCOUNT_PREFIX}{}:", account.namespace);
                Some(match account.name.as_str() {
                    ALL => Self::OfNamespace(prefix),
                    name => Self::ServiceAccount(format!("{prefix}{name}")),
                })
            }
            _ => None,
        }
    }

    fn include(&self, user: &UserInfo) -> bool {
        match self {
            Self::All => true,
            Self::User(name) | Self::ServiceAccount(name) => *name == user.name,
            Self::Group(name) => user.groups.contains(name),
            Self::OfNamespace(prefix) => user.name.starts_with(prefix.as_str()),
        }
    }
}

impl ResourcePolicyRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        contains(&self.verbs, &info.verb)
            && self.has_resource(&info.gvr.resource, &info.subresource)
            && contains(&self.api_groups, &info.gvr.group)
            && match info.namespace.is_empty() {
                true => self.cluster_scope,
                false => contains(&self.namespaces, &info.namespace),
            }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        let is_it = |named: &String| match subresource {
            "" => named == resource,
            _ => named
                .strip_prefix(resource)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| rest == subresource),
        };
        matches!(self.resources.as_slice(), [only] if only == ALL)
            || self.resources.iter().any(is_it)
    }
}

impl NonResourcePolicyRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        contains(&self.verbs, &info.verb)
            && self
                .non_resource_urls
                .iter()
                .any(|url| has_path(url, &info.path))
    }
}

/// Tells whether a rule's URL matches a path. Both `/x/*` and `/x` match all paths
/// below `/x/`.
fn has_path(url: &str, path: &str) -> bool {
    if url == ALL || url == path {
        return true;
    }
    let prefix = url.strip_suffix('*').unwrap_or(url);
    match prefix.ends_with('/') {
        true => path.starts_with(prefix),
        false => path
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('/')),
    }
}

/// Tells whether a list contains a word, or is only the wildcard.
fn contains(list: &[String], word: &str) -> bool {
    matches!(list, [only] if only == ALL) || list.iter().any(|listed| listed == word)
}
