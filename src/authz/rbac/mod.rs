//! Evaluates RBAC objects as kube-apiserver's RBAC authorizer does
//! (k8s.io/kubernetes `pkg/registry/rbac/validation/rule.go`). Used in an
//! outage, if the configuration says so, and to find what a view may hold.
//!
//! Rules only ever allow. A role that a binding names and that does not exist
//! allows nothing. The rules of an aggregated ClusterRole are in the object
//! itself, where a controller keeps them.

mod places;
mod rule;
mod rules;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use kubernetes_wire::api::{Attributes, UserInfo};
use serde::Deserialize;

pub use places::{Places, PlacesLimits, TooMany};
use rules::Rules;

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

/// All RBAC objects: as JSON, or read.
#[derive(Default)]
pub struct RbacObjects<R = bytes::Bytes, B = bytes::Bytes> {
    pub cluster_roles: Vec<R>,
    pub cluster_role_bindings: Vec<B>,
    pub roles: Vec<R>,
    pub role_bindings: Vec<B>,
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
    everywhere: Roles,
    namespaces: BTreeMap<Arc<str>, Roles>,
}

/// The rules of several roles: each role once, in the order of their places in memory.
type Roles = Vec<Arc<Rules>>;

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

/// A Role or ClusterRole.
#[derive(Deserialize)]
pub struct Role {
    metadata: Metadata,
    #[serde(default)]
    rules: Arc<Rules>,
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
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
type RolesByName<'a> = HashMap<(&'a str, &'a str), &'a Arc<Rules>>;

impl Role {
    pub fn read(json: &[u8]) -> Result<Self, MalformedRbac> {
        Ok(serde_json::from_slice(json)?)
    }
}

impl Binding {
    pub fn read(json: &[u8]) -> Result<Self, MalformedRbac> {
        Ok(serde_json::from_slice(json)?)
    }
}

impl Rights {
    pub fn read(objects: &RbacObjects) -> Result<Self, MalformedRbac> {
        let roles = |all: &[bytes::Bytes]| {
            let read = all.iter().map(|json| Role::read(json).map(Arc::new));
            read.collect::<Result<Vec<_>, _>>()
        };
        let bindings = |all: &[bytes::Bytes]| {
            let read = all.iter().map(|json| Binding::read(json).map(Arc::new));
            read.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self::of_objects(&RbacObjects {
            cluster_roles: roles(&objects.cluster_roles)?,
            cluster_role_bindings: bindings(&objects.cluster_role_bindings)?,
            roles: roles(&objects.roles)?,
            role_bindings: bindings(&objects.role_bindings)?,
        }))
    }

    /// Returns the rights that the objects give. They share the rules of the roles:
    /// whose roles are the same as before has the same rights as before.
    pub fn of_objects(objects: &RbacObjects<Arc<Role>, Arc<Binding>>) -> Self {
        let cluster_roles = by_name(&objects.cluster_roles);
        let roles = by_name(&objects.roles);
        let find = |binding: &Binding, namespace: &str| {
            let name = binding.role_ref.name.as_str();
            match binding.role_ref.kind.as_str() {
                "ClusterRole" => cluster_roles.get(&("", name)).copied(),
                "Role" if !namespace.is_empty() => roles.get(&(namespace, name)).copied(),
                _ => None,
            }
        };
        let mut rights = Self::default();
        for binding in &objects.cluster_role_bindings {
            if let Some(rules) = find(binding, "") {
                rights.bind(binding, rules, "");
            }
        }
        for binding in &objects.role_bindings {
            let namespace = binding.metadata.namespace.as_str();
            if let Some(rules) = find(binding, namespace)
                && !namespace.is_empty()
            {
                rights.bind(binding, rules, namespace);
            }
        }
        for bound in rights.users.values_mut().chain(rights.groups.values_mut()) {
            bound.have_each_once();
        }
        rights
    }

    /// Tells whether the user has the same rights as before. It may miss that they
    /// are, if objects were written anew.
    pub fn are_same_of(&self, user: &UserInfo, before: &Self) -> bool {
        let same = |now: Option<&Bound>, before: Option<&Bound>| match (now, before) {
            (Some(now), Some(before)) => now.is_same(before),
            (None, None) => true,
            _ => false,
        };
        let mut groups = user.groups.iter();
        same(self.users.get(&user.name), before.users.get(&user.name))
            && groups.all(|group| same(self.groups.get(group), before.groups.get(group)))
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
    fn bind(&mut self, binding: &Binding, rules: &Arc<Rules>, namespace: &str) {
        for subject in binding.subjects.iter().flatten() {
            let (by, name) = match subject.kind.as_str() {
                "User" => (&mut self.users, subject.name.clone()),
                "Group" => (&mut self.groups, subject.name.clone()),
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
                namespace => bound.namespaces.entry(namespace.into()).or_default(),
            };
            there.push(rules.clone());
        }
    }
}

impl Bound {
    fn have_each_once(&mut self) {
        let all = self.namespaces.values_mut();
        for roles in all.chain([&mut self.everywhere]) {
            roles.sort_unstable_by_key(|rules| Arc::as_ptr(rules).addr());
            roles.dedup_by(|a, b| Arc::ptr_eq(a, b));
        }
    }

    fn is_same(&self, before: &Self) -> bool {
        let same = |now: &[Arc<Rules>], before: &[Arc<Rules>]| {
            let mut both = now.iter().zip(before);
            now.len() == before.len() && both.all(|(now, before)| Arc::ptr_eq(now, before))
        };
        let mut namespaces = self.namespaces.iter().zip(&before.namespaces);
        same(&self.everywhere, &before.everywhere)
            && self.namespaces.len() == before.namespaces.len()
            && namespaces.all(|(now, before)| now.0 == before.0 && same(now.1, before.1))
    }

    fn allows(&self, attributes: &Attributes) -> bool {
        let allow = |bound: &[Arc<Rules>]| bound.iter().any(|rules| rules.allow(attributes));
        if allow(&self.everywhere) {
            return true;
        }
        let Attributes::Resource { namespace, .. } = attributes else {
            return false;
        };
        self.namespaces
            .get(namespace.as_str())
            .is_some_and(|there| allow(there))
    }
}

fn by_name(roles: &[Arc<Role>]) -> RolesByName<'_> {
    let named = roles.iter().map(|role| {
        let Metadata { name, namespace } = &role.metadata;
        ((namespace.as_str(), name.as_str()), &role.rules)
    });
    named.collect()
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

    #[test]
    fn others_changes_leave_rights_as_they_are() {
        let role = |name: &str, verb: &str| {
            Arc::new(Role::read(&objects(&[role("a", name, verb)])[0]).unwrap())
        };
        let binding = |name: &str, user: &str| {
            let subjects = json!([{"kind": "User", "name": user}]);
            let json = binding("a", "Role", name, subjects);
            Arc::new(Binding::read(json.to_string().as_bytes()).unwrap())
        };
        let rights = |roles: Vec<Arc<Role>>, role_bindings: Vec<Arc<Binding>>| {
            Rights::of_objects(&RbacObjects {
                cluster_roles: Vec::new(),
                cluster_role_bindings: Vec::new(),
                roles,
                role_bindings,
            })
        };
        let (lists, gets) = (role("lists", "list"), role("gets", "get"));
        let (ann, bob) = (binding("lists", "ann"), binding("gets", "bob"));
        let before = rights(vec![lists.clone(), gets], vec![ann.clone(), bob.clone()]);
        let user = |name: &str| UserInfo {
            name: name.to_owned(),
            ..UserInfo::default()
        };
        // Bob's role is another, and ann's binding is the same or written anew.
        for ann in [ann, binding("lists", "ann")] {
            let after = rights(
                vec![lists.clone(), role("gets", "watch")],
                vec![ann, bob.clone()],
            );
            assert!(after.are_same_of(&user("ann"), &before));
            assert!(after.are_same_of(&user("nobody"), &before));
            assert!(!after.are_same_of(&user("bob"), &before));
        }
        let none = rights(vec![lists], Vec::new());
        assert!(!none.are_same_of(&user("ann"), &before));
        assert!(!before.are_same_of(&user("ann"), &none));
    }
}
