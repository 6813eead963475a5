//! One rule of a role, and the requests that it allows
//! (k8s.io/kubernetes `plugin/pkg/auth/authorizer/rbac` and
//! `pkg/apis/rbac/v1/evaluation_helpers.go`).

use std::sync::Arc;

use kubernetes_wire::api::{Attributes, GroupVersionResource};
use serde::{Deserialize, Deserializer};

const ALL: &str = "*";

/// The memory of a text without its bytes, and of an entry among the names that a
/// role reaches.
const TEXT_BYTES: usize = 64;

/// rbac.authorization.k8s.io/v1 PolicyRule.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    #[serde(default, deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "list")]
    api_groups: Vec<String>,
    #[serde(default, deserialize_with = "list")]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Names,
    #[serde(default, rename = "nonResourceURLs", deserialize_with = "list")]
    non_resource_urls: Vec<String>,
}

/// Names of objects, sorted and each once. A role may hold a hundred thousand of
/// them, so they are never copied or searched one by one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Option<Vec<Arc<str>>>")]
pub(super) struct Names(Arc<[Arc<str>]>);

impl From<Option<Vec<Arc<str>>>> for Names {
    fn from(names: Option<Vec<Arc<str>>>) -> Self {
        let mut names = names.unwrap_or_default();
        names.sort_unstable();
        names.dedup();
        Self(names.into())
    }
}

impl Names {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn contains(&self, name: &str) -> bool {
        self.0.binary_search_by(|one| (**one).cmp(name)).is_ok()
    }
}

/// The objects of a resource that a rule allows to list or watch.
#[derive(Debug, PartialEq)]
pub(super) enum Reach<'a> {
    Nothing,
    All,
    Names(&'a Names),
}

impl Rule {
    /// Returns the most comparisons of texts that a decision takes. Names are
    /// searched, which takes few.
    pub(super) fn comparisons(&self) -> usize {
        self.texts().count().saturating_add(1)
    }

    /// Returns all texts but the names.
    fn texts(&self) -> impl Iterator<Item = &String> {
        let lists = [
            &self.verbs,
            &self.api_groups,
            &self.resources,
            &self.non_resource_urls,
        ];
        lists.into_iter().flatten()
    }

    pub(super) fn bytes(&self) -> usize {
        let texts = self.texts().map(String::len);
        let names = self.resource_names.iter().map(|name| name.len());
        texts.chain(names).fold(size_of::<Self>(), |sum, length| {
            sum.saturating_add(length).saturating_add(TEXT_BYTES)
        })
    }

    /// Returns the objects of a resource that the rule allows with a verb for
    /// collections. An empty name stands for every collection.
    pub(super) fn reach(&self, verb: &str, gvr: &GroupVersionResource) -> Reach<'_> {
        let applies = has(&self.verbs, verb)
            && has(&self.api_groups, &gvr.group)
            && self.has_resource(&gvr.resource, "");
        if !applies {
            return Reach::Nothing;
        }
        let names = &self.resource_names;
        match names.is_empty() || names.contains("") {
            true => Reach::All,
            false => Reach::Names(names),
        }
    }

    pub(super) fn allows(&self, attributes: &Attributes) -> bool {
        match attributes {
            Attributes::Resource {
                verb,
                gvr,
                name,
                subresource,
                ..
            } => {
                has(&self.verbs, verb)
                    && has(&self.api_groups, &gvr.group)
                    && self.has_resource(&gvr.resource, subresource)
                    && (self.resource_names.is_empty() || self.resource_names.contains(name))
            }
            Attributes::NonResource { verb, path } => has(&self.verbs, verb) && self.has_path(path),
        }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|wanted| {
            if wanted == ALL {
                return true;
            }
            if subresource.is_empty() {
                return wanted == resource;
            }
            wanted.strip_prefix("*/") == Some(subresource)
                || wanted
                    .strip_prefix(resource)
                    .and_then(|rest| rest.strip_prefix('/'))
                    == Some(subresource)
        })
    }

    fn has_path(&self, path: &str) -> bool {
        self.non_resource_urls.iter().any(|wanted| {
            wanted == path
                // kube-apiserver removes all stars at the end.
                || wanted.ends_with('*') && path.starts_with(wanted.trim_end_matches('*'))
        })
    }
}

/// Reads a list. Go writes an empty one as null.
fn list<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == ALL || one == wanted)
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::GroupVersionResource;
    use serde_json::json;

    use super::*;

    fn resource(verb: &str, group: &str, resource: &str, sub: &str, name: &str) -> Attributes {
        Attributes::Resource {
            verb: verb.into(),
            gvr: GroupVersionResource::new(group, "v1", resource),
            namespace: String::new(),
            name: name.into(),
            subresource: sub.into(),
            field_selector: String::new(),
            label_selector: String::new(),
        }
    }

    fn path(verb: &str, path: &str) -> Attributes {
        Attributes::NonResource {
            verb: verb.into(),
            path: path.into(),
        }
    }

    #[test]
    fn a_rule_allows_what_it_names() {
        let get = |resources: &[&str]| json!({"verbs": ["get"], "apiGroups": [""], "resources": resources});
        let named = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
        let url = |url: &str| json!({"verbs": ["get"], "nonResourceURLs": [url]});
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        for (rule, attributes, expected) in [
            (get(&["pods"]), resource("get", "", "pods", "", "a"), true),
            (get(&["pods"]), resource("list", "", "pods", "", ""), false),
            (
                get(&["pods"]),
                resource("get", "apps", "pods", "", "a"),
                false,
            ),
            (
                get(&["pods"]),
                resource("get", "", "pods", "log", "a"),
                false,
            ),
            (
                get(&["pods/log"]),
                resource("get", "", "pods", "log", "a"),
                true,
            ),
            (
                get(&["pods/log"]),
                resource("get", "", "pods", "", "a"),
                false,
            ),
            (
                get(&["pods/log"]),
                resource("get", "", "pods", "status", "a"),
                false,
            ),
            (
                get(&["*/log"]),
                resource("get", "", "pods", "log", "a"),
                true,
            ),
            (get(&["*/log"]), resource("get", "", "pods", "", "a"), false),
            (
                get(&["*/*"]),
                resource("get", "", "pods", "log", "a"),
                false,
            ),
            (
                get(&["pods/*"]),
                resource("get", "", "pods", "log", "a"),
                false,
            ),
            (get(&["*"]), resource("get", "", "pods", "log", "a"), true),
            (get(&[]), resource("get", "", "pods", "", "a"), false),
            (
                json!({"verbs": null}),
                resource("get", "", "pods", "", "a"),
                false,
            ),
            (named.clone(), resource("get", "", "pods", "", "a"), true),
            (named.clone(), resource("get", "", "pods", "", "b"), false),
            (named, resource("get", "", "pods", "", ""), false),
            (all.clone(), resource("x", "y", "z", "s", "n"), true),
            (all, path("get", "/x"), false),
            (url("*"), path("get", "/x"), true),
            (url("/x"), path("get", "/x"), true),
            (url("/x"), path("post", "/x"), false),
            (url("/x"), path("get", "/x/y"), false),
            (url("/x/*"), path("get", "/x/y"), true),
            (url("/x/*"), path("get", "/x"), false),
            (url("/x**"), path("get", "/xy"), true),
            (url("/*/y"), path("get", "/x/y"), false),
            (url("/x"), resource("get", "", "pods", "", ""), false),
        ] {
            let parsed: Rule = serde_json::from_value(rule.clone()).unwrap();
            assert_eq!(
                parsed.allows(&attributes),
                expected,
                "{rule} {attributes:?}"
            );
        }
    }
}
