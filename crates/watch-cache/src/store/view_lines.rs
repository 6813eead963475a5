//! The topics of views. A view is the set of objects in all namespaces that a caller
//! may see.
//!
//! Hundreds of watchers that each see a few of a thousand namespaces must not all
//! look at each event. The lines of an event are found by the namespace and the key
//! of its object.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::topic_line::Line;
use super::{Event, Visible, VisibleEntry};

/// The most namespaces and names in all sets with topics together, and in one set.
/// Each takes about 40 bytes. Watchers of further sets look at each event
/// themselves. Most events concern a set that is too large anyway.
const MAX_ENTRIES: usize = 200_000;
const MAX_ENTRIES_PER_SET: usize = 2_000;

/// The lines of sets, each with the number of its subscribers.
#[derive(Debug, Default)]
pub(super) struct ViewLines {
    lines: HashMap<Visible, (Arc<Line>, usize)>,
    namespaces: HashMap<Box<str>, Found>,
    objects: HashMap<Box<str>, Found>,
    entries: usize,
}

/// Lines by address.
type Found = BTreeMap<usize, Arc<Line>>;

impl ViewLines {
    /// Returns the line of a set. `None` if it or all sets are too large.
    pub(super) fn join(&mut self, visible: &Visible, next: u64) -> Option<Arc<Line>> {
        if let Some((line, subscribers)) = self.lines.get_mut(visible) {
            *subscribers = subscribers.saturating_add(1);
            return Some(line.clone());
        }
        let entries = self.entries.saturating_add(visible.len());
        if visible.len() > MAX_ENTRIES_PER_SET || entries > MAX_ENTRIES {
            return None;
        }
        self.entries = entries;
        let line = Arc::new(Line::since(next));
        self.lines.insert(visible.clone(), (line.clone(), 1));
        for entry in visible.iter() {
            let (lines, entry) = self.place(entry);
            let found = lines.entry(entry.into()).or_default();
            found.insert(Arc::as_ptr(&line).addr(), line.clone());
        }
        Some(line)
    }

    pub(super) fn leave(&mut self, visible: &Visible) {
        let Some((line, subscribers)) = self.lines.get_mut(visible) else {
            return;
        };
        *subscribers = subscribers.saturating_sub(1);
        if *subscribers > 0 {
            return;
        }
        let address = Arc::as_ptr(line).addr();
        self.lines.remove(visible);
        self.entries = self.entries.saturating_sub(visible.len());
        for entry in visible.iter() {
            let (lines, entry) = self.place(entry);
            if let Some(found) = lines.get_mut(entry) {
                found.remove(&address);
                if found.is_empty() {
                    lines.remove(entry);
                }
            }
        }
    }

    fn place<'v>(&mut self, entry: VisibleEntry<'v>) -> (&mut HashMap<Box<str>, Found>, &'v str) {
        match entry {
            VisibleEntry::Namespace(namespace) => (&mut self.namespaces, namespace),
            VisibleEntry::Object(key) => (&mut self.objects, key),
        }
    }

    /// Calls `each` once for each line that holds the event. No line is found twice,
    /// because a set has either a namespace or names in it.
    pub(super) fn for_each_holding(&self, event: &Event, mut each: impl FnMut(&Arc<Line>)) {
        if self.lines.is_empty() {
            return;
        }
        let key = &event.object.key;
        let found = [
            self.namespaces.get(key.namespace()),
            self.objects.get(key.as_str()),
        ];
        let lines = found.into_iter().flatten().flat_map(BTreeMap::values);
        lines.for_each(&mut each);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Line>> {
        self.lines.values().map(|(line, _)| line)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use kubernetes_wire::api::GroupVersionResource;

    use super::*;
    use crate::store::{Change, StoredObject, field_table};

    fn event(namespace: &str, name: &str) -> Event {
        let item = format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","resourceVersion":"1"}}}}"#
        );
        let fields = field_table(&GroupVersionResource::new("", "v1", "pods"));
        let object = StoredObject::parse(Bytes::from(item), &fields).unwrap();
        Event::new(Change::Added, 1, Arc::new(object), None, Instant::now())
    }

    fn set(namespaces: &[&str], in_x: &[&str]) -> Visible {
        let owned = |all: &[&str]| all.iter().map(|n| (*n).to_owned()).collect();
        let names = [("x".to_owned(), owned(in_x))].into();
        Visible::new(&owned(namespaces), &names)
    }

    #[test]
    fn an_event_is_told_to_who_sees_its_object() {
        let sets = [
            set(&["a", "b"], &["n"]),
            set(&["b"], &[]),
            set(&[], &["n", "m"]),
            set(&["x"], &["n"]),
            Visible::default(),
        ];
        let mut lines = ViewLines::default();
        let joined: Vec<_> = sets.iter().map(|s| lines.join(s, 7).unwrap()).collect();
        assert!(Arc::ptr_eq(
            &joined[0],
            &lines.join(&sets[0].clone(), 7).unwrap()
        ));
        lines.leave(&sets[0]);
        let told = |lines: &ViewLines, namespace, name| {
            let mut told = Vec::new();
            lines.for_each_holding(&event(namespace, name), |line| {
                told.extend(joined.iter().position(|other| Arc::ptr_eq(line, other)));
            });
            told.sort_unstable();
            told
        };
        for (namespace, name) in [("a", "n"), ("b", "n"), ("x", "n"), ("x", "o"), ("c", "m")] {
            let event = event(namespace, name);
            let holds = |n: &usize| sets[*n].contains(&event.object.key);
            let expected: Vec<_> = (0..sets.len()).filter(holds).collect();
            assert_eq!(
                told(&lines, namespace, name),
                expected,
                "{namespace}/{name}"
            );
        }
        lines.leave(&sets[0]);
        lines.leave(&sets[3]);
        assert_eq!(told(&lines, "a", "n"), [0; 0]);
        assert_eq!(told(&lines, "x", "n"), [2]);
        for n in [1, 2, 4] {
            lines.leave(&sets[n]);
        }
        assert!(lines.namespaces.is_empty() && lines.objects.is_empty());
        assert_eq!((lines.entries, lines.iter().count()), (0, 0));
    }

    #[test]
    fn sets_have_topics_up_to_a_bound() {
        let names = |from: usize, count| {
            let names = (from..from + count).map(|n| format!("n{n}")).collect();
            Visible::new(&names, &Default::default())
        };
        let mut lines = ViewLines::default();
        assert!(lines.join(&names(0, MAX_ENTRIES_PER_SET + 1), 0).is_none());
        let sets = MAX_ENTRIES / MAX_ENTRIES_PER_SET;
        for n in 0..sets {
            assert!(lines.join(&names(n, MAX_ENTRIES_PER_SET), 0).is_some());
        }
        assert!(lines.join(&names(sets, MAX_ENTRIES_PER_SET), 0).is_none());
        assert!(lines.join(&names(0, MAX_ENTRIES_PER_SET), 0).is_some());
        lines.leave(&names(1, MAX_ENTRIES_PER_SET));
        assert!(lines.join(&names(sets, MAX_ENTRIES_PER_SET), 0).is_some());
    }
}
