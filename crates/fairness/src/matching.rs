//! Whether a rule of a FlowSchema matches a request (k8s.io/apiserver
//! `util/flowcontrol/rule.go`).

use kubernetes_wire::api::UserInfo;
use kubernetes_wire::request::RequestInfo;

use crate::objects::{
    NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule, ServiceAccountSubject,
    Subject,
};

/// Matches everything, if it stands where it may.
const ALL: &str = "*";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

impl PolicyRulesWithSubjects {
    pub(crate) fn matches(&self, info: &RequestInfo, user: &UserInfo) -> bool {
        self.subjects.iter().any(|subject| subject.matches(user))
            && match info.is_resource_request {
                true => self.resource_rules.iter().any(|rule| rule.matches(info)),
                false => self
                    .non_resource_rules
                    .iter()
                    .any(|rule| rule.matches(info)),
            }
    }
}

impl Subject {
    fn matches(&self, user: &UserInfo) -> bool {
        match self.kind.as_str() {
            "User" => {
                let named = |name: &str| name == ALL || name == user.name;
                self.user
                    .as_ref()
                    .is_some_and(|subject| named(&subject.name))
            }
            "Group" => {
                let named = |name: &str| name == ALL || user.groups.iter().any(|g| g == name);
                self.group
                    .as_ref()
                    .is_some_and(|subject| named(&subject.name))
            }
            "ServiceAccount" => self
                .service_account
                .as_ref()
                .is_some_and(|account| account.matches(&user.name)),
            _ => false,
        }
    }
}

impl ServiceAccountSubject {
    fn matches(&self, user: &str) -> bool {
        let name = user
            .strip_prefix(SERVICE_ACCOUNT_PREFIX)
            .and_then(|rest| rest.strip_prefix(self.namespace.as_str()))
            .and_then(|rest| rest.strip_prefix(':'));
        name.is_some_and(|name| self.name == ALL || self.name == name)
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

/// Tells whether a URL of a rule matches a path. `/x/*` and also `/x` match all
/// paths below `/x/`.
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

/// Tells whether a list has a word, or is the one word for all.
fn contains(list: &[String], word: &str) -> bool {
    matches!(list, [only] if only == ALL) || list.iter().any(|listed| listed == word)
}
