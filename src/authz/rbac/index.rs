//! RBAC's objects as they come and go, and the rights that follow from them. A
//! change of an object costs time in proportion to its subjects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::rules::Rules;
use super::{Binding, Rights, Role, Subject};

/// Namespace (empty for cluster-scoped objects) and name.
pub type Key = (Arc<str>, Arc<str>);

/// The rights of all subjects, and the objects that give them.
#[derive(Default)]
pub struct Index {
    pub(super) rights: Rights,
    roles: HashMap<Key, Arc<Rules>>,
    bindings: HashMap<Key, Binding>,
    /// The bindings that name each role, including roles that do not exist.
    of_role: HashMap<Key, HashSet<Key>>,
    changes: u64,
    /// The approximate memory of the whole index.
    bytes: usize,
}

/// The approximate memory of a binding without its subjects, and of one subject: in
/// the index and in the subject's rights.
const BINDING_BYTES: usize = 900;
const SUBJECT_BYTES: usize = 350;

impl Index {
    pub fn rights(&self) -> Arc<Rights> {
        Arc::new(self.rights.clone())
    }

    /// Returns a number that changes when rights change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds or replaces a Role or ClusterRole.
    pub fn put_role(&mut self, role: Role) {
        let key = role.key();
        if self
            .roles
            .get(&key)
            .is_some_and(|known| **known == *role.rules)
        {
            return;
        }
        let before = self.roles.insert(key.clone(), role.rules.clone());
        self.count(role.rules.bytes(), before.as_ref().map_or(0, |b| b.bytes()));
        self.replace_rules(&key, before.as_ref(), Some(&role.rules));
    }

    pub fn remove_role(&mut self, key: &Key) {
        let before = self.roles.remove(key);
        self.count(0, before.as_ref().map_or(0, |before| before.bytes()));
        self.replace_rules(key, before.as_ref(), None);
    }

    /// Adds or replaces a RoleBinding or ClusterRoleBinding.
    pub fn put_binding(&mut self, binding: Binding) {
        let key = binding.key();
        if self.bindings.get(&key) == Some(&binding) {
            return;
        }
        self.remove_binding(&key);
        self.changes = self.changes.wrapping_add(1);
        if let Some(role) = binding.role() {
            if let Some(rules) = self.roles.get(&role) {
                self.rights.bind(&binding, rules);
            }
            self.of_role.entry(role).or_default().insert(key.clone());
        }
        self.count(bytes(&binding), 0);
        self.bindings.insert(key, binding);
    }

    pub fn remove_binding(&mut self, key: &Key) {
        let Some(before) = self.bindings.remove(key) else {
            return;
        };
        self.changes = self.changes.wrapping_add(1);
        self.count(0, bytes(&before));
        let Some(role) = before.role() else {
            return;
        };
        if let Some(rules) = self.roles.get(&role) {
            self.rights.unbind(&before, rules);
        }
        if let Some(bindings) = self.of_role.get_mut(&role) {
            bindings.remove(key);
            if bindings.is_empty() {
                self.of_role.remove(&role);
            }
        }
    }

    fn count(&mut self, more: usize, less: usize) {
        self.bytes = self.bytes.saturating_add(more).saturating_sub(less);
    }

    fn replace_rules(
        &mut self,
        role: &Key,
        before: Option<&Arc<Rules>>,
        after: Option<&Arc<Rules>>,
    ) {
        self.changes = self.changes.wrapping_add(1);
        for binding in self.of_role.get(role).into_iter().flatten() {
            let Some(binding) = self.bindings.get(binding) else {
                continue;
            };
            if let Some(after) = after {
                self.rights.bind(binding, after);
            }
            if let Some(before) = before {
                self.rights.unbind(binding, before);
            }
        }
    }
}

fn bytes(binding: &Binding) -> usize {
    let subject = |subject: &Subject| {
        let texts = subject.name.len().saturating_add(subject.namespace.len());
        texts.saturating_mul(2).saturating_add(SUBJECT_BYTES)
    };
    let subjects = binding.subjects.iter().flatten();
    subjects
        .map(subject)
        .fold(BINDING_BYTES, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::{Attributes, GroupVersionResource, UserInfo};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use serde_json::json;

    use super::super::PlacesLimits;
    use super::*;

    const NAMESPACES: [&str; 3] = ["", "a", "b"];
    const NAMES: [&str; 4] = ["w", "x", "y", "z"];

    /// Random objects, from so few names that they often refer to each other.
    struct Random(StdRng);

    impl Random {
        fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
            all[self.0.random_range(0..all.len())]
        }

        fn key(&mut self) -> Key {
            (self.pick(&NAMESPACES).into(), self.pick(&NAMES).into())
        }

        fn role(&mut self) -> Role {
            let (namespace, name) = self.key();
            let names = match self.0.random_range(0..3) {
                0 => json!([]),
                n => json!(NAMES[..n]),
            };
            let role = json!({
                "metadata": {"namespace": namespace, "name": name},
                "rules": [{
                    "verbs": [self.pick(&["list", "get"])], "apiGroups": [""],
                    "resources": ["pods"], "resourceNames": names,
                }],
            });
            Role::read(role.to_string().as_bytes()).unwrap()
        }

        fn binding(&mut self) -> Binding {
            let (namespace, name) = self.key();
            let subjects: Vec<_> = (0..self.0.random_range(0..4))
                .map(|_| {
                    let kind = self.pick(&["User", "Group", "ServiceAccount"]);
                    json!({"kind": kind, "name": self.pick(&NAMES), "namespace": self.pick(&NAMESPACES)})
                })
                .collect();
            let binding = json!({
                "metadata": {"namespace": namespace, "name": name}, "subjects": subjects,
                "roleRef": {"kind": self.pick(&["Role", "ClusterRole"]), "name": self.pick(&NAMES)},
            });
            Binding::read(binding.to_string().as_bytes()).unwrap()
        }
    }

    fn users() -> Vec<UserInfo> {
        let accounts = NAMES.map(|name| format!("system:serviceaccount:a:{name}"));
        let users = NAMES.map(String::from).into_iter().chain(accounts);
        let user = |name: String| UserInfo {
            groups: vec![NAMES[name.len() % 4].into()],
            name,
            ..UserInfo::default()
        };
        users.map(user).collect()
    }

    /// All facts that rights tell about a user.
    fn told(rights: &Rights, user: &UserInfo) -> String {
        let gvr = GroupVersionResource::new("", "v1", "pods");
        let mut told = Vec::new();
        for verb in ["list", "get"] {
            for namespaced in [true, false] {
                let limits = PlacesLimits {
                    all: 3,
                    names_of_one: 2,
                };
                let places = rights.places(user, verb, &gvr, namespaced, limits);
                told.push(format!(
                    "{places:?} {}",
                    rights.has_places(user, verb, &gvr)
                ));
            }
            for (namespace, name) in NAMESPACES.into_iter().flat_map(|n| NAMES.map(|m| (n, m))) {
                let attributes = Attributes::Resource {
                    verb: verb.into(),
                    gvr: gvr.clone(),
                    namespace: namespace.into(),
                    name: name.into(),
                    subresource: String::new(),
                    field_selector: String::new(),
                    label_selector: String::new(),
                };
                told.push(rights.allow(user, &attributes).to_string());
            }
        }
        told.join(" ")
    }

    #[test]
    fn rights_after_each_change_are_those_of_the_objects() {
        let seed = std::env::var("APIFRONT_TEST_SEED")
            .map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
        println!("APIFRONT_TEST_SEED={seed}");
        let mut random = Random(StdRng::seed_from_u64(seed));
        let users = users();
        let mut index = Index::default();
        let (mut same, mut others) = (0, 0);
        for _ in 0..3_000 {
            let (before, changes) = (index.rights(), index.changes());
            match random.0.random_range(0..6) {
                0 => index.remove_role(&random.key()),
                1 => index.remove_binding(&random.key()),
                2 | 3 => index.put_role(random.role()),
                _ => index.put_binding(random.binding()),
            }
            let after = index.rights();
            let mut fresh = Index::default();
            for (key, rules) in &index.roles {
                let role = Role {
                    metadata: super::super::Metadata {
                        namespace: key.0.clone(),
                        name: key.1.clone(),
                    },
                    rules: rules.clone(),
                };
                fresh.put_role(role);
            }
            for binding in index.bindings.values() {
                fresh.put_binding(binding.clone());
            }
            assert_eq!(index.bytes, fresh.bytes);
            let fresh = fresh.rights();
            assert_eq!(after.users.len(), fresh.users.len());
            assert_eq!(after.groups.len(), fresh.groups.len());
            for user in &users {
                assert_eq!(told(&after, user), told(&fresh, user));
                let is_same = told(&after, user) == told(&before, user);
                match after.are_same_of(user, &before) {
                    true => assert!(is_same),
                    false => others += 1,
                }
                same += usize::from(is_same);
            }
            assert!(
                index.changes() != changes
                    || users.iter().all(|user| after.are_same_of(user, &before))
            );
        }
        // Most changes do not affect this user.
        assert!(same > 10 * 3_000 / 2 && others > 100, "{same} {others}");
    }
}
