//! Merges lists of groups into one, in the order that kube-aggregator would use
//! if all groups were registered there.
//!
//! Groups are sorted by descending priority, then by name. Versions are sorted
//! by descending priority, then by Kubernetes' order of versions. Upstream's
//! list already has this order. The groups that the configuration registers are
//! inserted into it, and no other group moves.

use std::cmp::Reverse;
use std::collections::HashSet;

use kubernetes_wire::api::{GroupVersion, version_order};

use super::priorities::{Priorities, Priority};

/// The aggregator's own group, which always comes first.
const FIRST: &str = "apiregistration.k8s.io";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<T> {
    pub(super) group: String,
    /// The names of the versions, and the value of each.
    pub(super) versions: Vec<(String, T)>,
}

/// The order of two groups with equal priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TieBreak {
    /// The `APIGroupDiscoveryList` compares the names of groups.
    Group,
    /// `/apis` compares the names of APIServices: `v1.apps`.
    ApiService,
}

/// Inserts `ours`, the versions that the configuration registers, into `entries`,
/// which are upstream's. If both have a version, ours is kept.
pub(super) fn insert<T: Clone>(
    entries: &mut Vec<Entry<T>>,
    ours: &[(GroupVersion, T)],
    priorities: &Priorities,
    tie: TieBreak,
) {
    let mut groups = HashSet::new();
    for (version, _) in ours {
        if groups.insert(&version.group) {
            insert_group(entries, &version.group, ours, priorities, tie);
        }
    }
}

fn insert_group<T: Clone>(
    entries: &mut Vec<Entry<T>>,
    group: &str,
    ours: &[(GroupVersion, T)],
    priorities: &Priorities,
    tie: TieBreak,
) {
    let known = entries.iter().position(|e| e.group == group);
    let mut entry = match known {
        Some(at) => entries.remove(at),
        None => Entry {
            group: group.to_owned(),
            versions: Vec::new(),
        },
    };
    for (version, value) in ours.iter().filter(|(v, _)| v.group == group) {
        let name = &version.version;
        match entry.versions.iter_mut().find(|(n, _)| n == name) {
            Some((_, present)) => present.clone_from(value),
            None => entry.versions.push((name.clone(), value.clone())),
        }
    }
    let priority = |version: &str| priority(priorities, group, version).version;
    entry.versions.sort_by(|(a, _), (b, _)| {
        (priority(b).cmp(&priority(a))).then_with(|| version_order::compare(a, b))
    });
    let rank_of_ours = rank(&entry, priorities, tie);
    let at = entries
        .iter()
        .position(|e| rank(e, priorities, tie) > rank_of_ours)
        .unwrap_or(entries.len());
    entries.insert(at, entry);
}

fn rank<T>(
    entry: &Entry<T>,
    priorities: &Priorities,
    tie: TieBreak,
) -> (bool, Reverse<i32>, String) {
    let of = |version: &str| priority(priorities, &entry.group, version).group;
    let names = entry.versions.iter().map(|(name, _)| name.as_str());
    let (priority, name) = match tie {
        TieBreak::Group => (names.map(of).max().unwrap_or_default(), entry.group.clone()),
        TieBreak::ApiService => names
            .map(|name| (of(name), format!("{name}.{}", entry.group)))
            .min_by_key(|(priority, name)| (Reverse(*priority), name.clone()))
            .unwrap_or_default(),
    };
    (entry.group != FIRST, Reverse(priority), name)
}

fn priority(priorities: &Priorities, group: &str, version: &str) -> Priority {
    priorities.get(&GroupVersion {
        group: group.to_owned(),
        version: version.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> GroupVersion {
        GroupVersion::parse(text).unwrap()
    }

    fn merged(upstream: &str, ours: &[(&str, i32, i32)], tie: TieBreak) -> String {
        let mut priorities = Priorities::default();
        let mut entries: Vec<Entry<&str>> = Vec::new();
        for (text, group, v) in [
            ("apps/v1", 17800, 15),
            ("events.k8s.io/v1", 17750, 15),
            ("example.com/v1", 1000, 100),
            ("example.com/v1beta1", 1000, 100),
        ] {
            let priority = Priority { group, version: v };
            priorities.set(version(text), priority);
        }
        for text in upstream.split(' ') {
            let version = version(text);
            match entries.last_mut() {
                Some(last) if last.group == version.group => {
                    last.versions.push((version.version, "theirs"));
                }
                _ => entries.push(Entry {
                    group: version.group,
                    versions: vec![(version.version, "theirs")],
                }),
            }
        }
        let ours: Vec<_> = ours
            .iter()
            .map(|(text, group, v)| {
                let priority = Priority {
                    group: *group,
                    version: *v,
                };
                priorities.set(version(text), priority);
                (version(text), "ours")
            })
            .collect();
        insert(&mut entries, &ours, &priorities, tie);
        let shown = |e: &Entry<&str>| {
            let versions = e.versions.iter().map(|(name, whose)| match *whose {
                "ours" => format!("{}/{name}!", e.group),
                _ => format!("{}/{name}", e.group),
            });
            versions.collect::<Vec<_>>().join(" ")
        };
        entries.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    const UPSTREAM: &str = "apiregistration.k8s.io/v1 apps/v1 events.k8s.io/v1 example.com/v1";

    #[test]
    fn ours_go_where_their_priority_puts_them() {
        for (ours, expected) in [
            (
                &[("wardle.example.com/v1alpha1", 1000, 15)][..],
                "apiregistration.k8s.io/v1 apps/v1 events.k8s.io/v1 example.com/v1 wardle.example.com/v1alpha1!",
            ),
            (
                &[("a.example.com/v1", 1000, 15)],
                "apiregistration.k8s.io/v1 apps/v1 events.k8s.io/v1 a.example.com/v1! example.com/v1",
            ),
            (
                &[("z.example.com/v1", 20000, 15)],
                "apiregistration.k8s.io/v1 z.example.com/v1! apps/v1 events.k8s.io/v1 example.com/v1",
            ),
            (
                &[
                    ("w.io/v1alpha1", 2000, 10),
                    ("w.io/v1", 100, 5),
                    ("w.io/v1beta1", 100, 10),
                ],
                "apiregistration.k8s.io/v1 apps/v1 events.k8s.io/v1 w.io/v1beta1! w.io/v1alpha1! w.io/v1! example.com/v1",
            ),
            (
                &[("example.com/v2", 18000, 100)],
                "apiregistration.k8s.io/v1 example.com/v2! example.com/v1 apps/v1 events.k8s.io/v1",
            ),
            (
                &[("example.com/v1", 1000, 100)],
                "apiregistration.k8s.io/v1 apps/v1 events.k8s.io/v1 example.com/v1!",
            ),
        ] {
            assert_eq!(merged(UPSTREAM, ours, TieBreak::Group), expected);
        }
    }

    /// `v1.example.com` comes before `v1alpha1.a.example.com`.
    #[test]
    fn names_of_api_services_break_ties_of_the_plain_document() {
        let ours = [("a.example.com/v1alpha1", 1000, 15)];
        assert_eq!(
            merged(UPSTREAM, &ours, TieBreak::ApiService),
            "apiregistration.k8s.io/v1 apps/v1 events.k8s.io/v1 example.com/v1 a.example.com/v1alpha1!"
        );
    }
}
