//! Where a user may read a resource, as RBAC has it.

use std::collections::{BTreeMap, BTreeSet};

use kubernetes_wire::api::{GroupVersionResource, UserInfo};

use super::Rights;
use super::rule::Reach;

/// The namespaces in which a user may list or watch a resource, and the single
/// objects elsewhere. It is a hint which questions to ask: the authorizer
/// decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub namespaces: BTreeSet<String>,
    /// Single names by namespace, which is empty for cluster-scoped resources.
    pub names: BTreeMap<String, BTreeSet<String>>,
    /// RBAC also allows names of a namespaced resource in every namespace. They
    /// are not among the names: nobody knows in which namespaces there are such
    /// objects.
    pub names_anywhere: bool,
}

impl Places {
    /// Returns the number of namespaces and names.
    pub fn len(&self) -> usize {
        let names = self.names.values().map(BTreeSet::len).sum::<usize>();
        self.namespaces.len().saturating_add(names)
    }

    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.names.is_empty()
    }

    fn add_names(&mut self, namespace: &str, names: &[String]) {
        let there = self.names.entry(namespace.to_owned()).or_default();
        there.extend(names.iter().cloned());
    }
}

impl Rights {
    /// Returns where the user may `verb` the resource, without what is allowed
    /// in the whole cluster. `verb` is list or watch. The cost is that of the
    /// user's own bindings.
    pub fn places(
        &self,
        user: &UserInfo,
        verb: &str,
        gvr: &GroupVersionResource,
        namespaced: bool,
    ) -> Places {
        let mut places = Places::default();
        for bound in self.of(user) {
            for rule in bound.everywhere.iter().flat_map(|rules| rules.iter()) {
                match (rule.reach(verb, gvr), namespaced) {
                    (Reach::Names(_), true) => places.names_anywhere = true,
                    (Reach::Names(names), false) => places.add_names("", names),
                    (Reach::All | Reach::Nothing, _) => {}
                }
            }
            let there = bound.namespaces.iter().filter(|_| namespaced);
            for (namespace, bound) in there {
                for rule in bound.iter().flat_map(|rules| rules.iter()) {
                    match rule.reach(verb, gvr) {
                        Reach::All => drop(places.namespaces.insert(namespace.clone())),
                        Reach::Names(names) => places.add_names(namespace, names),
                        Reach::Nothing => {}
                    }
                }
            }
        }
        let whole = &places.namespaces;
        places
            .names
            .retain(|namespace, _| !whole.contains(namespace));
        places
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::RbacObjects;
    use super::*;

    fn role(namespace: &str, name: &str, rule: Value) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name}, "rules": [rule]})
    }

    fn binding(namespace: &str, kind: &str, role: &str, subject: (&str, &str)) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": "b"},
            "subjects": [{"kind": subject.0, "name": subject.1}],
            "roleRef": {"kind": kind, "name": role},
        })
    }

    fn objects(list: &[Value]) -> Vec<bytes::Bytes> {
        list.iter().map(|o| o.to_string().into()).collect()
    }

    fn rule(verbs: &[&str], resource: &str, names: &[&str]) -> Value {
        json!({
            "verbs": verbs, "apiGroups": [""], "resources": [resource], "resourceNames": names,
        })
    }

    #[test]
    fn places_are_those_of_the_users_own_bindings() {
        let (user, group) = (("User", "ann"), ("Group", "devs"));
        let rights = Rights::read(&RbacObjects {
            cluster_roles: objects(&[
                role("", "reads", rule(&["list", "watch"], "pods", &[])),
                role("", "named", rule(&["list"], "pods", &["x", "y"])),
                role("", "nodes", rule(&["*"], "nodes", &["n1"])),
                role("", "empty", rule(&["list"], "pods", &["z", ""])),
                role("", "logs", rule(&["list"], "pods/log", &[])),
                role("", "spaces", rule(&["list"], "namespaces", &["a", "b"])),
            ]),
            cluster_role_bindings: objects(&[
                binding("", "ClusterRole", "nodes", user),
                binding("", "ClusterRole", "named", group),
                binding("", "ClusterRole", "spaces", group),
            ]),
            roles: objects(&[role("r", "own", rule(&["watch"], "*", &[]))]),
            role_bindings: objects(&[
                binding("a", "ClusterRole", "reads", user),
                binding("b", "ClusterRole", "reads", group),
                binding("b", "ClusterRole", "named", user),
                binding("c", "ClusterRole", "named", user),
                binding("d", "ClusterRole", "empty", user),
                binding("e", "ClusterRole", "logs", user),
                binding("f", "ClusterRole", "reads", ("User", "bob")),
                binding("n", "ClusterRole", "nodes", user),
                binding("r", "Role", "own", user),
            ]),
        })
        .unwrap();
        let ann = UserInfo {
            name: "ann".into(),
            groups: vec!["devs".into()],
            ..UserInfo::default()
        };
        let shown = |verb: &str, resource: &str, namespaced| {
            let gvr = GroupVersionResource::new("", "v1", resource);
            let places = rights.places(&ann, verb, &gvr, namespaced);
            let names = places.names.iter().flat_map(|(namespace, names)| {
                names.iter().map(move |name| format!("{namespace}/{name}"))
            });
            let all: Vec<String> = places.namespaces.iter().cloned().chain(names).collect();
            assert_eq!(places.len(), all.len());
            assert_eq!(places.is_empty(), all.is_empty());
            (all.join(" "), places.names_anywhere)
        };
        for (verb, resource, namespaced, expected, anywhere) in [
            ("list", "pods", true, "a b d c/x c/y", true),
            ("watch", "pods", true, "a b r", false),
            ("list", "nodes", false, "/n1", false),
            ("list", "namespaces", false, "/a /b", false),
            ("watch", "namespaces", false, "", false),
            ("list", "secrets", true, "", false),
        ] {
            let found = shown(verb, resource, namespaced);
            assert_eq!(found, (expected.to_owned(), anywhere), "{verb} {resource}");
        }
        let stranger = UserInfo::default();
        let pods = GroupVersionResource::new("", "v1", "pods");
        assert!(rights.places(&stranger, "list", &pods, true).is_empty());
    }
}
