//! A server's answers about one resource, and whether they allow a shared cache.

use serde_json::Value;

use super::{COMMON, MAX_SAMPLED_NAMESPACES, NAME};

#[derive(Debug, Default, PartialEq)]
pub(super) struct Shown(pub(super) Vec<Value>);

/// All answers while the list of everything stayed the same.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The list as apifront's own user.
    pub(super) all: Shown,
    /// The list as another caller, by that caller's group. Refusals are left out.
    pub(super) others: Vec<(&'static str, Shown)>,
    pub(super) by_namespace: Vec<(String, Shown)>,
    /// Single objects by key. `None` if the server does not show one.
    pub(super) objects: Vec<(String, Option<Value>)>,
}

fn metadata<'v>(object: &'v Value, field: &str) -> &'v str {
    let found = object.get("metadata").and_then(|m| m.get(field)?.as_str());
    found.unwrap_or_default()
}

/// Returns the key by which kube-apiserver orders lists.
fn key(object: &Value) -> String {
    let (namespace, name) = (metadata(object, "namespace"), metadata(object, "name"));
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

/// Returns an object without its type, which lists may leave out.
fn untyped(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    object
}

impl Answers {
    pub(super) fn keys(&self) -> Vec<String> {
        self.all.0.iter().map(key).collect()
    }

    /// Returns the namespaces to list. None if the resource has no namespaces.
    pub(super) fn namespaces(&self) -> Vec<String> {
        let mut found: Vec<&str> = Vec::new();
        let own = self.all.0.iter().map(|o| metadata(o, "namespace"));
        let own = own.filter(|namespace| !namespace.is_empty());
        for namespace in own {
            if !found.contains(&namespace) && found.len() < MAX_SAMPLED_NAMESPACES {
                found.push(namespace);
            }
        }
        // An empty list does not show whether there are namespaces.
        if found.is_empty() && !self.all.0.is_empty() {
            return Vec::new();
        }
        found.extend(COMMON);
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(str::to_owned).collect()
    }

    /// Returns the reason why a cache would answer differently from the server.
    pub(super) fn refutation(&self) -> Option<String> {
        let all = &self.all.0;
        if let Some((group, shown)) = self.others.iter().find(|(_, shown)| *shown != self.all) {
            return Some(format!(
                "{} as apifront's own user, and {} as {NAME:?} of {group}{}",
                objects(all.len()),
                objects(shown.0.len()),
                match shown.0.len() == all.len() {
                    true => ", not the same ones",
                    false => "",
                }
            ));
        }
        let keys = self.keys();
        let unordered = keys.iter().zip(keys.iter().skip(1)).find(|(a, b)| a >= b);
        if let Some((before, after)) = unordered {
            return Some(format!("its list has {before:?} before {after:?}"));
        }
        for (namespace, shown) in &self.by_namespace {
            let cut = all.iter().filter(|o| metadata(o, "namespace") == namespace);
            if !cut.clone().eq(&shown.0) {
                return Some(format!(
                    "{} in the list of namespace {namespace:?}, and {} of it in the list of all",
                    objects(shown.0.len()),
                    objects(cut.count())
                ));
            }
        }
        let listed = |of: &String| all.iter().find(|o| key(o) == *of).map(untyped);
        let other = self
            .objects
            .iter()
            .find(|(key, object)| object.as_ref().map(untyped) != listed(key));
        other.map(|(key, _)| format!("{key:?} alone is not as in the list"))
    }
}

fn objects(count: usize) -> String {
    match count {
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(key: &str) -> Value {
        let (namespace, name) = key.split_once('/').expect("a key");
        json!({ "metadata": { "namespace": namespace, "name": name }, "spec": 1 })
    }

    fn shown(keys: &[&str]) -> Shown {
        Shown(keys.iter().map(|key| object(key)).collect())
    }

    fn honest() -> Answers {
        let mut whole = object("a/x");
        whole["kind"] = json!("Thing");
        Answers {
            all: shown(&["a/x", "b/y"]),
            others: vec![("system:masters", shown(&["a/x", "b/y"]))],
            by_namespace: vec![
                ("a".to_owned(), shown(&["a/x"])),
                ("c".to_owned(), shown(&[])),
            ],
            objects: vec![("a/x".to_owned(), Some(whole))],
        }
    }

    #[test]
    fn each_false_claim_is_refuted() {
        assert_eq!(honest().refutation(), None);
        let told = |change: fn(&mut Answers)| {
            let mut answers = honest();
            change(&mut answers);
            answers.refutation().expect("a refutation")
        };
        for (change, expected) in [
            (
                (|a| a.others[0].1 = shown(&["b/y"])) as fn(&mut Answers),
                "2 objects as apifront's own user, and 1 object as \"apifront-doctor\" of \
                 system:masters",
            ),
            (
                |a| a.others[0].1 = shown(&["a/x", "b/z"]),
                "2 objects as apifront's own user, and 2 objects as \"apifront-doctor\" of \
                 system:masters, not the same ones",
            ),
            (
                |a| {
                    a.all = shown(&["b/y", "a/x"]);
                    a.others.clear();
                },
                "its list has \"b/y\" before \"a/x\"",
            ),
            (
                |a| a.by_namespace[1].1 = shown(&["c/z"]),
                "1 object in the list of namespace \"c\", and 0 objects of it in the list of all",
            ),
            (
                |a| a.objects[0].1 = None,
                "\"a/x\" alone is not as in the list",
            ),
        ] {
            assert_eq!(told(change), expected);
        }
    }

    #[test]
    fn namespaces_are_asked_where_there_are_some() {
        assert_eq!(honest().namespaces(), ["a", "b", "default", "kube-system"]);
        let cluster_wide = Answers {
            all: Shown(vec![json!({ "metadata": { "name": "x" } })]),
            ..Answers::default()
        };
        assert_eq!(cluster_wide.namespaces(), Vec::<String>::new());
        assert_eq!(Answers::default().namespaces(), COMMON);
    }
}
