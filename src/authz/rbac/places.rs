//! Where a user may read a resource, as RBAC has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes_wire::api::{GroupVersionResource, UserInfo};

use super::Rights;
use super::rule::{Names, Reach, Rule};

/// The namespaces in which a user may list or watch a resource, and the single
/// objects elsewhere. It is a hint which questions to ask: the authorizer
/// decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub namespaces: BTreeSet<Arc<str>>,
    /// Single names by namespace, which is empty for cluster-scoped resources.
    pub names: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
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
}

/// There are more places than were asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl Rights {
    /// Returns where the user may `verb` the resource, without what is allowed
    /// in the whole cluster; no more than `most` namespaces and names. `verb` is list
    /// or watch. The cost is that of the user's own bindings, and of `most` names.
    pub fn places(
        &self,
        user: &UserInfo,
        verb: &str,
        gvr: &GroupVersionResource,
        namespaced: bool,
        most: usize,
    ) -> Result<Places, TooMany> {
        let mut places = Places::default();
        let mut names: Vec<(Arc<str>, &Names)> = Vec::new();
        for bound in self.of(user) {
            for rule in bound.everywhere.iter().flat_map(|rules| rules.iter()) {
                match (rule.reach(verb, gvr), namespaced) {
                    (Reach::Names(_), true) => places.names_anywhere = true,
                    (Reach::Names(some), false) => names.push(("".into(), some)),
                    (Reach::All | Reach::Nothing, _) => {}
                }
            }
            let there = bound.namespaces.iter().filter(|_| namespaced);
            for (namespace, bound) in there {
                for rule in bound.iter().flat_map(|rules| rules.iter()) {
                    match rule.reach(verb, gvr) {
                        Reach::All => drop(places.namespaces.insert(namespace.clone())),
                        Reach::Names(some) => names.push((namespace.clone(), some)),
                        Reach::Nothing => {}
                    }
                }
            }
        }
        let mut left = most.checked_sub(places.namespaces.len()).ok_or(TooMany)?;
        names.retain(|(namespace, _)| !places.namespaces.contains(namespace));
        for (namespace, some) in names {
            let there = places.names.entry(namespace).or_default();
            for name in some.iter() {
                if there.insert(name.clone()) {
                    left = left.checked_sub(1).ok_or(TooMany)?;
                }
            }
        }
        Ok(places)
    }

    /// Tells whether there are such places.
    pub fn has_places(&self, user: &UserInfo, verb: &str, gvr: &GroupVersionResource) -> bool {
        let reached = |rules: &[Arc<[Rule]>], where_named: bool| {
            let mut rules = rules.iter().flat_map(|rules| rules.iter());
            rules.any(|rule| match rule.reach(verb, gvr) {
                Reach::Nothing => false,
                Reach::All => !where_named,
                Reach::Names(_) => true,
            })
        };
        self.of(user).any(|bound| {
            let mut namespaces = bound.namespaces.values();
            reached(&bound.everywhere, true) || namespaces.any(|there| reached(there, false))
        })
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
            let places = rights.places(&ann, verb, &gvr, namespaced, 6).unwrap();
            let names = places.names.iter().flat_map(|(namespace, names)| {
                names.iter().map(move |name| format!("{namespace}/{name}"))
            });
            let whole = places
                .namespaces
                .iter()
                .map(|namespace| namespace.to_string());
            let all: Vec<String> = whole.chain(names).collect();
            assert_eq!(places.len(), all.len());
            // They are not counted further than asked for.
            let most = |most| rights.places(&ann, verb, &gvr, namespaced, most);
            assert_eq!(most(all.len()), Ok(places.clone()));
            let fewer = all.len().checked_sub(1);
            assert!(fewer.is_none_or(|fewer| most(fewer) == Err(TooMany)));
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
            let gvr = GroupVersionResource::new("", "v1", resource);
            assert!(found.0.is_empty() || rights.has_places(&ann, verb, &gvr));
            assert_eq!(found, (expected.to_owned(), anywhere), "{verb} {resource}");
        }
        let stranger = UserInfo::default();
        let pods = GroupVersionResource::new("", "v1", "pods");
        let none = rights.places(&stranger, "list", &pods, true, 0);
        assert_eq!(none, Ok(Places::default()));
        assert!(!rights.has_places(&stranger, "list", &pods));
    }
}
