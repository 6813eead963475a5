//! The set of a resource's objects that a caller may see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ObjectKey;

/// A set of whole namespaces, and of single names in other namespaces. The
/// names of cluster-scoped objects are in the namespace "". The set never
/// changes, and a copy is a pointer.
///
/// There are no wildcards: a caller who may see everything needs no set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Visible {
    /// `namespace/` for a whole namespace, and the key of a single object, in
    /// key order. The ranges of keys that they stand for do not overlap.
    entries: Arc<[Box<str>]>,
}

/// An entry of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleEntry<'v> {
    /// All objects of the namespace.
    Namespace(&'v str),
    /// The object with this [key](ObjectKey::as_str).
    Object(&'v str),
}

impl Visible {
    /// Makes the set of these namespaces, and of these names by namespace. Texts
    /// that cannot be an object's name or namespace are left out.
    pub fn new(namespaces: &BTreeSet<String>, names: &BTreeMap<String, BTreeSet<String>>) -> Self {
        // Namespace and name are joined with '/'. A name that has one must not become
        // another namespace's object.
        let is_part = |part: &str| !part.is_empty() && !part.contains('/');
        let whole = namespaces.iter().filter(|namespace| is_part(namespace));
        let mut entries: Vec<Box<str>> = whole
            .map(|namespace| format!("{namespace}/").into())
            .collect();
        for (namespace, names) in names {
            let is_whole = is_part(namespace) && namespaces.contains(namespace);
            if is_whole || namespace.contains('/') {
                continue;
            }
            let names = names.iter().filter(|name| is_part(name));
            entries.extend(names.map(|name| ObjectKey::new(namespace, name).as_str().into()));
        }
        entries.sort_unstable();
        Self {
            entries: entries.into(),
        }
    }

    pub fn contains(&self, key: &ObjectKey) -> bool {
        let key = key.as_str();
        // No other entry can hold the key: their ranges do not overlap.
        let last = self.upto(key).checked_sub(1);
        let entry = last.and_then(|last| self.entries.get(last));
        entry.is_some_and(|entry| {
            &**entry == key || is_namespace(entry) && key.starts_with(&**entry)
        })
    }

    /// Tells whether both are copies of one set.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entries, &other.entries)
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of namespaces and names.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the namespaces and the names, in the order of their objects'
    /// keys.
    pub fn iter(&self) -> impl Iterator<Item = VisibleEntry<'_>> {
        self.entries
            .iter()
            .map(|entry| match entry.strip_suffix('/') {
                Some(namespace) => VisibleEntry::Namespace(namespace),
                None => VisibleEntry::Object(entry),
            })
    }

    /// Returns the part of the set that is in one namespace.
    #[must_use]
    pub fn within(&self, namespace: &str) -> Self {
        let prefix = format!("{namespace}/");
        let entries = self.entries.iter();
        let entries = entries.filter(|entry| entry.starts_with(&prefix));
        Self {
            entries: entries.cloned().collect(),
        }
    }

    /// Returns the visible ranges of keys at or above `start`, in order. Each is
    /// half-open: it ends before its second key.
    pub(super) fn ranges(&self, start: &str) -> impl Iterator<Item = (String, String)> + use<> {
        let (entries, start) = (self.entries.clone(), start.to_owned());
        // The entry before may reach beyond the start.
        let first = self.upto(&start).saturating_sub(1);
        (first..entries.len()).filter_map(move |at| {
            let entry = entries.get(at)?;
            let end = match entry.strip_suffix('/') {
                Some(namespace) => after_namespace(namespace),
                None => format!("{entry}\0"),
            };
            let begin: &str = std::cmp::max(entry, &start);
            (begin < end.as_str()).then(|| (begin.to_owned(), end))
        })
    }

    /// Returns the number of entries that are not above `key`.
    fn upto(&self, key: &str) -> usize {
        self.entries.partition_point(|entry| &**entry <= key)
    }
}

fn is_namespace(entry: &str) -> bool {
    entry.ends_with('/')
}

/// Returns the end of a namespace's keys. '0' is the byte after '/': the
/// half-open range holds exactly the keys that start with "namespace/".
pub(super) fn after_namespace(namespace: &str) -> String {
    format!("{namespace}0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(namespaces: &[&str], keys: &[&str]) -> Visible {
        let namespaces = namespaces.iter().map(|n| (*n).to_owned()).collect();
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for key in keys {
            let (namespace, name) = key.split_once(':').unwrap();
            names
                .entry(namespace.into())
                .or_default()
                .insert(name.into());
        }
        Visible::new(&namespaces, &names)
    }

    #[test]
    fn a_set_holds_its_namespaces_and_names_alone() {
        let set = visible(&["a", "c"], &["b:x", "b:y-z", "a:x"]);
        let held = |namespace, name| set.contains(&ObjectKey::new(namespace, name));
        for (namespace, name, expected) in [
            ("a", "x", true),
            ("a", "", true),
            ("a-b", "x", false),
            ("a0", "x", false),
            ("aa", "x", false),
            ("", "a", false),
            ("b", "x", true),
            ("b", "x0", false),
            ("b", "y", false),
            ("b", "y-z", true),
            ("c", "zzz", true),
            ("d", "x", false),
            ("", "0", false),
        ] {
            assert_eq!(held(namespace, name), expected, "{namespace}/{name}");
        }
        assert_eq!(set.len(), 4, "a name in a whole namespace is no entry");
        assert!(!Visible::default().contains(&ObjectKey::new("a", "x")));
    }

    #[test]
    fn a_name_does_not_become_a_namespace() {
        // Names in roles may be any text.
        let set = visible(
            &["", "a/b"],
            &[":a/x", "b/c:x", "b:", "b:/", ":node", "d:e/f"],
        );
        let entries: Vec<_> = set.iter().collect();
        assert_eq!(entries, [VisibleEntry::Object("node")]);
        for key in [("a", "x"), ("b", "c"), ("", "x"), ("d", "e/f")] {
            assert!(!set.contains(&ObjectKey::new(key.0, key.1)), "{key:?}");
        }
        assert!(set.contains(&ObjectKey::new("", "node")));
    }

    #[test]
    fn ranges_are_those_of_keys() {
        let set = visible(&["a", "a-b"], &["b:x"]);
        let ranges = |namespace: &str, start: &str| {
            let set = match namespace {
                "" => set.clone(),
                namespace => set.within(namespace),
            };
            let ranges = set.ranges(start);
            let ranges = ranges.map(|(from, to)| format!("{from} {to}"));
            ranges.collect::<Vec<_>>()
        };
        assert_eq!(ranges("", ""), ["a-b/ a-b0", "a/ a0", "b/x b/x\0"]);
        assert_eq!(
            ranges("", "a-b/k\0"),
            ["a-b/k\0 a-b0", "a/ a0", "b/x b/x\0"]
        );
        assert_eq!(ranges("", "a0"), ["b/x b/x\0"]);
        assert_eq!(ranges("", "b/x\0"), [""; 0]);
        assert_eq!(ranges("a", ""), ["a/ a0"]);
        assert_eq!(ranges("a", "a/k"), ["a/k a0"]);
        assert_eq!(ranges("b", ""), ["b/x b/x\0"]);
        assert_eq!(ranges("c", ""), [""; 0]);
        // Each range holds exactly what the set holds.
        let keys = [
            "a-b/x", "a-b/", "a/x", "a/zz", "a0", "a0/x", "b/x", "b/xx", "c/x",
        ];
        for (namespace, name) in keys.iter().filter_map(|key| key.split_once('/')) {
            let key = ObjectKey::new(namespace, name);
            let all = set.ranges("");
            let held = all.filter(|(f, t)| (f.as_str()..t).contains(&key.as_str()));
            assert_eq!(held.count() == 1, set.contains(&key), "{key:?}");
        }
    }

    #[test]
    fn equal_sets_are_equal() {
        let a = visible(&["a", "b"], &["c:x"]);
        assert_eq!(a, visible(&["b", "a"], &["c:x", "a:y"]));
        assert_ne!(a, visible(&["a", "b"], &[]));
    }
}
