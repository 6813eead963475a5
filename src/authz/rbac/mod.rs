//! Evaluates RBAC objects as kube-apiserver's RBAC authorizer does
//! (k8s.io/kubernetes `pkg/registry/rbac/validation/rule.go`). Used in an
//! outage, if the configuration says so, and to find what a view may hold.
//!
//! Rules only ever allow. A role that a binding names and that does not exist
//! allows nothing. The rules of an aggregated ClusterRole are in the object
//! itself, where a controller keeps them.

mod places;
mod rule;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use kubernetes_wire::api::{Attributes, UserInfo};
use serde::Deserialize;

pub use places::Places;
use rule::Rule;

/// The RBAC objects in memory.
#[async_trait]
pub trait SavedRbac: Send + Sync {
    /// Returns the rights, and the last moment at which all objects were known
    /// to be as upstream. `None` if some of them are not in memory.
    async fn rights(&self) -> Option<(Arc<Rights>, Instant)>;
}

/// A RBAC object that cannot be read, or names what is not known.
#[derive(Debug, thiserror::Error)]
#[error("RBAC object: {0}")]
pub struct MalformedRbac(#[from] serde_json::Error);

/// The JSON of all RBAC objects.
#[derive(Default)]
pub struct RbacObjects {
    pub cluster_roles: Vec<bytes::Bytes>,
    pub cluster_role_bindings: Vec<bytes::Bytes>,
    pub roles: Vec<bytes::Bytes>,
    pub role_bindings: Vec<bytes::Bytes>,
}

/// The rights of all subjects. A user's own rights and those of a group are
/// found without looking at others'.
#[derive(Debug, Default)]
pub struct Rights {
    /// Users and, by their user names, service accounts.
    users: HashMap<String, Bound>,
    groups: HashMap<String, Bound>,
}

/// The rules that are bound to one subject.
#[derive(Debug, Default)]
struct Bound {
    everywhere: Vec<Arc<[Rule]>>,
    namespaces: HashMap<String, Vec<Arc<[Rule]>>>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
struct Role {
    metadata: Metadata,
    #[serde(default)]
    rules: Option<Vec<Rule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding {
    metadata: Metadata,
    #[serde(default)]
    subjects: Option<Vec<Subject>>,
    role_ref: RoleRef,
}

#[derive(Deserialize)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Deserialize)]
struct Subject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

/// The rules of roles by namespace and name. The namespace of a ClusterRole is
/// empty.
type Roles = HashMap<(String, String), Arc<[Rule]>>;

impl Rights {
    pub fn read(objects: &RbacObjects) -> Result<Self, MalformedRbac> {
        let cluster_roles = roles(&objects.cluster_roles)?;
        let roles = roles(&objects.roles)?;
        let find = |binding: &Binding, namespace: &str| {
            let key = |namespace: &str| (namespace.to_owned(), binding.role_ref.name.clone());
            match binding.role_ref.kind.as_str() {
                "ClusterRole" => cluster_roles.get(&key("")).cloned(),
                "Role" if !namespace.is_empty() => roles.get(&key(namespace)).cloned(),
                _ => None,
            }
        };
        let mut rights = Self::default();
        for binding in &objects.cluster_role_bindings {
            let binding: Binding = serde_json::from_slice(binding)?;
            if let Some(rules) = find(&binding, "") {
                rights.bind(binding, &rules, "");
            }
        }
        for binding in &objects.role_bindings {
            let binding: Binding = serde_json::from_slice(binding)?;
            let namespace = binding.metadata.namespace.clone();
            if let Some(rules) = find(&binding, &namespace)
                && !namespace.is_empty()
            {
                rights.bind(binding, &rules, &namespace);
            }
        }
        Ok(rights)
    }

    /// Tells whether RBAC allows the request. Only namespaced requests are
    /// allowed by RoleBindings.
    pub fn allow(&self, user: &UserInfo, attributes: &Attributes) -> bool {
        self.of(user).any(|bound| bound.allows(attributes))
    }

    /// Returns what is bound to the user and to each of the user's groups.
    fn of<'a>(&'a self, user: &'a UserInfo) -> impl Iterator<Item = &'a Bound> {
        let by_group = user.groups.iter().filter_map(|g| self.groups.get(g));
        self.users.get(&user.name).into_iter().chain(by_group)
    }

    /// Adds a binding. `namespace` is the binding's own, which is empty for a
    /// ClusterRoleBinding.
    fn bind(&mut self, binding: Binding, rules: &Arc<[Rule]>, namespace: &str) {
        for subject in binding.subjects.unwrap_or_default() {
            let (by, name) = match subject.kind.as_str() {
                "User" => (&mut self.users, subject.name),
                "Group" => (&mut self.groups, subject.name),
                "ServiceAccount" => {
                    let namespace = match subject.namespace.as_str() {
                        "" => namespace,
                        own => own,
                    };
                    if namespace.is_empty() {
                        continue;
                    }
                    let name = format!("system:serviceaccount:{namespace}:{}", subject.name);
                    (&mut self.users, name)
                }
                _ => continue,
            };
            let bound = by.entry(name).or_default();
            let there = match namespace {
                "" => &mut bound.everywhere,
                namespace => bound.namespaces.entry(namespace.to_owned()).or_default(),
            };
            there.push(rules.clone());
        }
    }
}

impl Bound {
    fn allows(&self, attributes: &Attributes) -> bool {
        let allow = |bound: &[Arc<[Rule]>]| {
            let mut rules = bound.iter().flat_map(|rules| rules.iter());
            rules.any(|rule| rule.allows(attributes))
        };
        if allow(&self.everywhere) {
            return true;
        }
        let Attributes::Resource { namespace, .. } = attributes else {
            return false;
        };
        self.namespaces
            .get(namespace)
            .is_some_and(|there| allow(there))
    }
}

fn roles(objects: &[bytes::Bytes]) -> Result<Roles, MalformedRbac> {
    objects
        .iter()
        .map(|object| {
            let role: Role = serde_json::from_slice(object)?;
            let key = (role.metadata.namespace, role.metadata.name);
            Ok((key, role.rules.unwrap_or_default().into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::GroupVersionResource;
    use serde_json::{Value, json};

    use super::*;

    fn objects(list: &[Value]) -> Vec<bytes::Bytes> {
        list.iter().map(|o| o.to_string().into()).collect()
    }

    fn role(namespace: &str, name: &str, verb: &str) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": name},
            "rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}],
        })
    }

    fn binding(namespace: &str, kind: &str, name: &str, subjects: Value) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": "b"},
            "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        })
    }

    fn pods(verb: &str, namespace: &str) -> Attributes {
        Attributes::Resource {
            verb: verb.into(),
            gvr: GroupVersionResource::new("", "v1", "pods"),
            namespace: namespace.into(),
            name: String::new(),
            subresource: String::new(),
            field_selector: String::new(),
            label_selector: String::new(),
        }
    }

    #[test]
    fn bindings_reach_their_subjects_where_they_hold() {
        let user = |name: &str| json!([{"kind": "User", "name": name}]);
        let account = |namespace: &str, name: &str| json!([{"kind": "ServiceAccount", "namespace": namespace, "name": name}]);
        let rights = Rights::read(&RbacObjects {
            cluster_roles: objects(&[
                role("", "lists", "list"),
                role("", "gets", "get"),
                json!({"metadata": {"name": "none"}, "rules": null}),
            ]),
            cluster_role_bindings: objects(&[
                binding("", "ClusterRole", "lists", user("ann")),
                binding("", "ClusterRole", "lists", account("", "nowhere")),
                binding("", "ClusterRole", "none", user("bob")),
                binding("", "ClusterRole", "gone", user("bob")),
                binding("", "Role", "watches", user("bob")),
                binding(
                    "",
                    "ClusterRole",
                    "gets",
                    json!([{"kind": "Group", "name": "devs"}]),
                ),
                binding("", "ClusterRole", "gets", json!(null)),
            ]),
            roles: objects(&[role("a", "watches", "watch"), role("b", "lists", "watch")]),
            role_bindings: objects(&[
                binding("a", "Role", "watches", user("bob")),
                binding("a", "ClusterRole", "lists", account("", "own")),
                binding("a", "ClusterRole", "lists", account("b", "other")),
                binding("b", "Role", "watches", user("eve")),
                binding("b", "Node", "watches", user("eve")),
            ]),
        })
        .unwrap();
        for (name, groups, verb, namespace, expected) in [
            ("ann", vec![], "list", "", true),
            ("ann", vec![], "list", "a", true),
            ("ann", vec![], "get", "a", false),
            ("bob", vec![], "watch", "a", true),
            ("bob", vec![], "watch", "b", false),
            ("bob", vec![], "watch", "", false),
            ("bob", vec![], "list", "", false),
            // A Role of the binding's own namespace alone is meant.
            ("eve", vec![], "watch", "b", false),
            ("cid", vec!["x", "devs"], "get", "", true),
            ("devs", vec![], "get", "", false),
            ("system:serviceaccount:a:own", vec![], "list", "a", true),
            ("system:serviceaccount:b:own", vec![], "list", "a", false),
            ("system:serviceaccount:b:other", vec![], "list", "a", true),
            ("system:serviceaccount:a:other", vec![], "list", "a", false),
            ("system:serviceaccount::nowhere", vec![], "list", "a", false),
        ] {
            let user = UserInfo {
                name: name.to_owned(),
                groups: groups.iter().map(|g| (*g).to_owned()).collect(),
                ..UserInfo::default()
            };
            let allowed = rights.allow(&user, &pods(verb, namespace));
            assert_eq!(allowed, expected, "{name} {verb} {namespace}");
        }
        let path = Attributes::NonResource {
            verb: "get".into(),
            path: "/x".into(),
        };
        assert!(!rights.allow(&UserInfo::default(), &path));
        let broken = RbacObjects {
            roles: objects(&[json!({"metadata": {}})]),
            ..RbacObjects::default()
        };
        assert!(Rights::read(&broken).is_err());
    }
}
