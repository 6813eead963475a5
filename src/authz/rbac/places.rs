//! The places where a user may read a resource according to RBAC. Views begin with them
//! (`views/follow.rs`), and show what upstream grants (`views/grants.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes_wire::api::{GroupVersionResource, UserInfo};

use super::Rights;
use super::held::Held;
use super::rules::Reached;

/// The most steps to find the first names of a place: several roles may have the
/// same names, or later roles lower ones.
const MAX_STEPS: usize = 10_000;

/// The namespaces in which a user may list or watch a resource, and the single
/// objects elsewhere. They only say which questions to ask: the authorizer decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidatePlaces {
    pub namespaces: BTreeSet<Arc<str>>,
    /// Single names by namespace. The namespace is empty for cluster-scoped
    /// resources.
    pub names: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Whether RBAC also allows names of a namespaced resource in every namespace.
    /// These are not among `names`, because the namespaces that have objects of
    /// those names are unknown.
    pub names_anywhere: bool,
    /// Whether RBAC allows more names than the limits.
    pub names_left_out: bool,
}

/// The most places of one user for one resource.
#[derive(Clone, Copy, Debug)]
pub struct PlacesLimits {
    /// Namespaces and names together.
    pub all: usize,
    /// Names in one namespace. Anybody who may write Roles there can add names to
    /// another user's view.
    pub names_of_one: usize,
}

/// There are more namespaces than the limits allow.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl Rights {
    /// Returns the places where the user may `verb` (list or watch) the resource,
    /// apart from rights in the whole cluster. If there are too many names, the last
    /// ones of the namespaces with the most names are left out. The cost grows with
    /// the user's roles and with the names that the limits allow.
    pub fn places(
        &self,
        user: &UserInfo,
        verb: &str,
        gvr: &GroupVersionResource,
        namespaced: bool,
        limits: PlacesLimits,
    ) -> Result<CandidatePlaces, TooMany> {
        let mut places = CandidatePlaces::default();
        let mut named: BTreeMap<Arc<str>, Vec<Arc<Reached>>> = BTreeMap::new();
        for bound in self.bound_to(user) {
            for rules in bound.everywhere.roles() {
                let reached = rules.reached(verb, gvr);
                if let Reached::Names(_) = *reached {
                    match namespaced {
                        true => places.names_anywhere = true,
                        false => named.entry("".into()).or_default().push(reached),
                    }
                }
            }
            let there = bound.namespaces.iter().filter(|_| namespaced);
            for (namespace, bound) in there {
                for rules in bound.roles() {
                    let reached = rules.reached(verb, gvr);
                    match *reached {
                        Reached::All => drop(places.namespaces.insert(namespace.clone())),
                        Reached::Names(_) => {
                            named.entry(namespace.clone()).or_default().push(reached);
                        }
                        Reached::Nothing => {}
                    }
                }
            }
        }
        let left = limits.all.checked_sub(places.namespaces.len());
        let left = left.ok_or(TooMany)?;
        let most = match namespaced {
            true => limits.names_of_one.min(left),
            false => left,
        };
        named.retain(|namespace, _| !places.namespaces.contains(namespace));
        for (namespace, reached) in named {
            let (names, are_all) = first(&reached, most);
            places.names_left_out |= !are_all;
            places.names.insert(namespace, names);
        }
        places.fit(left);
        Ok(places)
    }

    /// Tells whether there is any such place.
    pub fn has_places(&self, user: &UserInfo, verb: &str, gvr: &GroupVersionResource) -> bool {
        let reached = |held: &Held, where_named: bool| {
            held.roles().any(|rules| match *rules.reached(verb, gvr) {
                Reached::Nothing => false,
                Reached::All => !where_named,
                Reached::Names(_) => true,
            })
        };
        self.bound_to(user).any(|bound| {
            let mut namespaces = bound.namespaces.values();
            reached(&bound.everywhere, true) || namespaces.any(|there| reached(there, false))
        })
    }
}

impl CandidatePlaces {
    /// Leaves out the last names of the namespaces with the most names, until there
    /// are at most `most`.
    fn fit(&mut self, most: usize) {
        let lengths = || self.names.values().map(BTreeSet::len);
        let fits = |of_one: usize| lengths().map(|n| n.min(of_one)).sum::<usize>() <= most;
        let longest = lengths().max().unwrap_or_default();
        if fits(longest) {
            return;
        }
        // Searches the largest number of names per namespace that fits.
        let (mut fitting, mut too_many) = (0_usize, longest);
        while too_many.saturating_sub(fitting) > 1 {
            let middle = fitting.midpoint(too_many);
            match fits(middle) {
                true => fitting = middle,
                false => too_many = middle,
            }
        }
        self.names_left_out = true;
        for names in self.names.values_mut() {
            while names.len() > fitting {
                names.pop_last();
            }
        }
        self.names.retain(|_, names| !names.is_empty());
    }
}

/// Returns the first names of several roles, and whether these are all.
fn first(roles: &[Arc<Reached>], most: usize) -> (BTreeSet<Arc<str>>, bool) {
    let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut are_all = true;
    let mut steps = MAX_STEPS.max(most);
    for role in roles {
        let Reached::Names(all) = &**role else {
            continue;
        };
        for name in all {
            let Some(left) = steps.checked_sub(1) else {
                return (names, false);
            };
            steps = left;
            if names.contains(name) {
                continue;
            }
            if names.len() >= most {
                are_all = false;
                if names.last().is_none_or(|last| name > last) {
                    break;
                }
                names.pop_last();
            }
            names.insert(name.clone());
        }
    }
    (names, are_all)
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
            "metadata": {"namespace": namespace, "name": format!("{role} {subject:?}")},
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
        let limits = |all| PlacesLimits {
            all,
            names_of_one: 3,
        };
        let shown = |verb: &str, resource: &str, namespaced| {
            let gvr = GroupVersionResource::new("", "v1", resource);
            let places = rights.places(&ann, verb, &gvr, namespaced, limits(6));
            let places = places.unwrap();
            assert!(!places.names_left_out);
            let names = places.names.iter().flat_map(|(namespace, names)| {
                names.iter().map(move |name| format!("{namespace}/{name}"))
            });
            let whole = places
                .namespaces
                .iter()
                .map(|namespace| namespace.to_string());
            let all: Vec<String> = whole.chain(names).collect();
            // Names are left out to make room; namespaces are not.
            for most in 0..all.len() {
                let fewer = rights.places(&ann, verb, &gvr, namespaced, limits(most));
                assert_eq!(fewer.is_err(), most < places.namespaces.len());
                let fewer = fewer.unwrap_or_default();
                let left_out = !fewer.namespaces.is_empty() || places.namespaces.is_empty();
                assert_eq!(fewer.names_left_out, left_out);
                let names = fewer.names.values().map(BTreeSet::len).sum::<usize>();
                assert!(fewer.namespaces.len() + names <= most);
            }
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
        let none = rights.places(&stranger, "list", &pods, true, limits(0));
        assert_eq!(none, Ok(CandidatePlaces::default()));
        assert!(!rights.has_places(&stranger, "list", &pods));
    }

    /// Many names in one namespace do not change the places in others.
    #[test]
    fn names_beyond_the_limits_are_those_of_who_has_the_most() {
        let names = |n: usize| (0..n).map(|n| format!("p{n:04}")).collect::<Vec<_>>();
        let many = names(3_000);
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let user = ("User", "ann");
        let all: Vec<Value> = (0..20)
            .map(|n| {
                let some = &many[many.len() - 100 * (n + 1)..];
                role("much", &format!("r{n}"), rule(&["list"], "pods", some))
            })
            .chain([
                role("few", "own", rule(&["list"], "pods", &["x", "y"])),
                role("whole", "own", rule(&["list"], "pods", &[])),
            ])
            .collect();
        let bindings = |namespace: &str, name: &str| binding(namespace, "Role", name, user);
        let rights = Rights::read(&RbacObjects {
            roles: objects(&all),
            role_bindings: objects(
                &(0..20)
                    .map(|n| bindings("much", &format!("r{n}")))
                    .chain([bindings("few", "own"), bindings("whole", "own")])
                    .collect::<Vec<_>>(),
            ),
            ..RbacObjects::default()
        })
        .unwrap();
        let ann = UserInfo {
            name: "ann".into(),
            ..UserInfo::default()
        };
        let pods = GroupVersionResource::new("", "v1", "pods");
        for (all, names_of_one, much, few) in [
            (1_000, 50, 50, 2),
            (20, 50, 17, 2),
            (3, 50, 1, 1),
            (1, 50, 0, 0),
        ] {
            let limits = PlacesLimits { all, names_of_one };
            let places = rights.places(&ann, "list", &pods, true, limits).unwrap();
            let found = |namespace: &str| places.names.get(namespace).map_or(0, BTreeSet::len);
            assert_eq!((found("much"), found("few")), (much, few));
            assert!(places.names_left_out && places.namespaces.contains("whole"));
            if much == 50 {
                let least = places.names["much"].first().unwrap();
                assert_eq!(**least, *many[1_000]);
            }
        }
    }
}
