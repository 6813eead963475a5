//! Evaluates RBAC objects as kube-apiserver's RBAC authorizer does
//! (k8s.io/kubernetes `pkg/registry/rbac/validation/rule.go`). This decides in an
//! outage, if configured, and finds the places of views.
//!
//! Rules only ever allow. A binding to a role that does not exist allows nothing. An
//! aggregated ClusterRole holds its rules itself, where a controller keeps them
//! current.

mod held;
mod index;
mod places;
mod rule;
mod rules;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kubernetes_wire::api::{Attributes, UserInfo};
use serde::Deserialize;

use held::Held;
pub use index::{Index, Key};
pub use places::{CandidatePlaces, PlacesLimits, TooMany};
use rules::Rules;

/// The resources of Kubernetes' RBAC.
pub const RBAC: [&str; 4] = [
    "clusterroles.v1.rbac.authorization.k8s.io",
    "clusterrolebindings.v1.rbac.authorization.k8s.io",
    "roles.v1.rbac.authorization.k8s.io",
    "rolebindings.v1.rbac.authorization.k8s.io",
];

/// The RBAC objects in memory.
#[async_trait]
pub trait SavedRbac: Send + Sync {
    /// Returns the rights, and the last moment at which all objects were known to be
    /// current. `None` if some of them are not in memory.
    async fn rights(&self) -> Option<(Arc<Rights>, Instant)>;

    /// As [`rights`](Self::rights), and asks upstream for its version if the last
    /// such moment was longer ago than `age`. `None` also if that fails.
    async fn rights_within(&self, age: Duration) -> Option<(Arc<Rights>, Instant)>;
}

/// An RBAC object that cannot be decoded, or has an unknown value.
#[derive(Debug, thiserror::Error)]
#[error("RBAC object: {0}")]
pub struct MalformedRbac(#[from] serde_json::Error);

/// All RBAC objects, as JSON.
#[derive(Default)]
pub struct RbacObjects {
    pub cluster_roles: Vec<bytes::Bytes>,
    pub cluster_role_bindings: Vec<bytes::Bytes>,
    pub roles: Vec<bytes::Bytes>,
    pub role_bindings: Vec<bytes::Bytes>,
}

/// The rights of all subjects. Finding the rights of a user or a group takes no look
/// at others. Copies share everything.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// Users, and service accounts by their user names.
    users: imbl::HashMap<Arc<str>, Bound>,
    groups: imbl::HashMap<Arc<str>, Bound>,
}

/// The roles that are bound to one subject.
#[derive(Clone, Debug, Default)]
struct Bound {
    everywhere: Held,
    namespaces: imbl::OrdMap<Arc<str>, Held>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Metadata {
    name: Arc<str>,
    #[serde(default)]
    namespace: Arc<str>,
}

/// A Role or ClusterRole.
#[derive(Debug, Deserialize)]
pub struct Role {
    metadata: Metadata,
    #[serde(default)]
    rules: Arc<Rules>,
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    metadata: Metadata,
    #[serde(default)]
    subjects: Option<Vec<Subject>>,
    role_ref: RoleRef,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct RoleRef {
    kind: String,
    name: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Subject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

impl Metadata {
    fn key(&self) -> Key {
        (self.namespace.clone(), self.name.clone())
    }
}

impl Role {
    pub fn read(json: &[u8]) -> Result<Self, MalformedRbac> {
        Ok(serde_json::from_slice(json)?)
    }

    fn key(&self) -> Key {
        self.metadata.key()
    }
}

impl Binding {
    pub fn read(json: &[u8]) -> Result<Self, MalformedRbac> {
        Ok(serde_json::from_slice(json)?)
    }

    fn key(&self) -> Key {
        self.metadata.key()
    }

    /// Returns the bound role. Only a RoleBinding can name a Role, and only one of
    /// its own namespace.
    fn role(&self) -> Option<Key> {
        let namespace = &self.metadata.namespace;
        let name = self.role_ref.name.clone();
        match self.role_ref.kind.as_str() {
            "ClusterRole" => Some(("".into(), name)),
            "Role" if !namespace.is_empty() => Some((namespace.clone(), name)),
            _ => None,
        }
    }

    /// Returns the users and groups that the binding names.
    fn bound(&self) -> impl Iterator<Item = Holder<'_>> {
        let namespace = &*self.metadata.namespace;
        self.subjects.iter().flatten().filter_map(move |subject| {
            let name = subject.name.as_str();
            match subject.kind.as_str() {
                "User" => Some(Holder::User(name.into())),
                "Group" => Some(Holder::Group(name)),
                "ServiceAccount" => {
                    let namespace = match subject.namespace.as_str() {
                        "" => namespace,
                        own => own,
                    };
                    let account = || format!("system:serviceaccount:{namespace}:{name}");
                    (!namespace.is_empty()).then(|| Holder::User(account().into()))
                }
                _ => None,
            }
        })
    }
}

enum Holder<'a> {
    User(Cow<'a, str>),
    Group(&'a str),
}

impl Rights {
    pub fn read(objects: &RbacObjects) -> Result<Self, MalformedRbac> {
        let mut index = Index::default();
        for json in objects.cluster_roles.iter().chain(&objects.roles) {
            index.put_role(Role::read(json)?);
        }
        let all = objects.cluster_role_bindings.iter();
        for json in all.chain(&objects.role_bindings) {
            index.put_binding(Binding::read(json)?);
        }
        Ok(index.rights.clone())
    }

    /// Tells whether the user has the same rights as before. May return false for
    /// equal rights if objects were written again.
    pub fn are_same_of(&self, user: &UserInfo, before: &Self) -> bool {
        let same = |now: Option<&Bound>, before: Option<&Bound>| match (now, before) {
            (Some(now), Some(before)) => now.is_same(before),
            (None, None) => true,
            _ => false,
        };
        let name = user.name.as_str();
        let mut groups = user.groups.iter().map(String::as_str);
        same(self.users.get(name), before.users.get(name))
            && groups.all(|group| same(self.groups.get(group), before.groups.get(group)))
    }

    /// Tells whether RBAC allows the request. RoleBindings allow only namespaced
    /// requests.
    pub fn allow(&self, user: &UserInfo, attributes: &Attributes) -> bool {
        let mut roles = self
            .bound_to(user)
            .flat_map(|bound| bound.roles(attributes));
        roles.any(|rules| rules.allow(attributes))
    }

    /// As [`allow`](Self::allow), if that takes at most this many comparisons of
    /// texts. `None` if it would take more.
    pub fn allow_within(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        most_comparisons: usize,
    ) -> Option<bool> {
        let roles = self
            .bound_to(user)
            .flat_map(|bound| bound.roles(attributes));
        let mut left = most_comparisons;
        for rules in roles {
            left = left.checked_sub(rules.comparisons())?;
            if rules.allow(attributes) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Returns the roles that are bound to the user and to each of their groups.
    fn bound_to<'a>(&'a self, user: &'a UserInfo) -> impl Iterator<Item = &'a Bound> {
        let groups = user.groups.iter();
        let by_group = groups.filter_map(|group| self.groups.get(group.as_str()));
        let own = self.users.get(user.name.as_str());
        own.into_iter().chain(by_group)
    }

    fn bind(&mut self, binding: &Binding, rules: &Arc<Rules>) {
        self.change(binding, |held| held.add(rules));
    }

    fn unbind(&mut self, binding: &Binding, rules: &Arc<Rules>) {
        self.change(binding, |held| held.remove(rules));
    }

    /// Changes the roles of a binding's subjects: in the binding's namespace, or
    /// everywhere for a ClusterRoleBinding.
    fn change(&mut self, binding: &Binding, change: impl Fn(&mut Held)) {
        let namespace = &binding.metadata.namespace;
        for holder in binding.bound() {
            let (by, name) = match &holder {
                Holder::User(name) => (&mut self.users, &**name),
                Holder::Group(name) => (&mut self.groups, *name),
            };
            let mut bound = by.get(name).cloned().unwrap_or_default();
            if namespace.is_empty() {
                change(&mut bound.everywhere);
            } else {
                let there = bound.namespaces.get(namespace);
                let mut there = there.cloned().unwrap_or_default();
                change(&mut there);
                match there.is_empty() {
                    true => drop(bound.namespaces.remove(namespace)),
                    false => drop(bound.namespaces.insert(namespace.clone(), there)),
                }
            }
            match bound.is_empty() {
                true => drop(by.remove(name)),
                false => drop(by.insert(name.into(), bound)),
            }
        }
    }
}

impl Bound {
    fn is_empty(&self) -> bool {
        self.everywhere.is_empty() && self.namespaces.is_empty()
    }

    fn is_same(&self, before: &Self) -> bool {
        if !self.everywhere.is_same(&before.everywhere) {
            return false;
        }
        let (now, before) = (&self.namespaces, &before.namespaces);
        let mut both = now.iter().zip(before);
        now.ptr_eq(before)
            || now.len() == before.len()
                && both.all(|(now, before)| now.0 == before.0 && now.1.is_same(before.1))
    }

    /// Returns the roles that count for a request.
    fn roles(&self, attributes: &Attributes) -> impl Iterator<Item = &Arc<Rules>> {
        let there = match attributes {
            Attributes::Resource { namespace, .. } => self.namespaces.get(namespace.as_str()),
            Attributes::NonResource { .. } => None,
        };
        self.everywhere
            .roles()
            .chain(there.into_iter().flat_map(Held::roles))
    }
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
            "metadata": {"namespace": namespace, "name": format!("{kind} {name} {subjects}")},
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
            // Only a Role in the binding's own namespace counts.
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
