//! The smallest set of events that a watcher needs, and the subscriptions to
//! it.
//!
//! Thousands of watchers of one resource, each for its own node, must not all
//! be woken by each event. Each event is looked up by hash in the topics that
//! it belongs to, and wakes only their subscribers. A topic keeps the sequence
//! numbers of its events; the events are in the log. A topic exists while it
//! has subscribers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::fields::Selectable;
use super::{Event, Filter, ObjectKey, Scope};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    All,
    Namespace(Box<str>),
    Object(ObjectKey),
    /// Objects with this value in a field of the resource's table.
    Field {
        index: usize,
        value: Box<str>,
    },
}

impl Topic {
    /// Returns the smallest topic that has all events that a filter can match.
    pub fn of(filter: &Filter) -> Self {
        let required = |field| filter.fields.required(field);
        let namespace = match &filter.scope {
            Scope::Namespace(namespace) => Some(namespace.as_str()),
            Scope::All => required("metadata.namespace"),
        };
        let fields = filter.fields.requirements.iter().zip(&filter.selected);
        let mut fields = fields.filter_map(|(r, selectable)| match selectable {
            Selectable::Column(index) if r.equal => {
                let (index, value) = (*index, r.value.as_str().into());
                Some((r.field.as_str(), Self::Field { index, value }))
            }
            _ => None,
        });
        match (namespace, filter.name.as_deref()) {
            (Some(namespace), Some(name)) => Self::Object(ObjectKey::new(namespace, name)),
            (None, Some(name)) if !filter.namespaced => Self::Object(ObjectKey::new("", name)),
            // `spec.nodeName` is the one field that kube-apiserver indexes.
            // Most other fields have few different values: a namespace is the
            // smaller topic.
            (Some(namespace), None) => fields
                .find(|(label, _)| *label == "spec.nodeName")
                .map_or(Self::Namespace(namespace.into()), |(_, field)| field),
            (None, _) => fields.next().map_or(Self::All, |(_, field)| field),
        }
    }

    /// Tells whether the object belonged to the topic before the event or
    /// belongs to it after.
    pub(super) fn holds(&self, event: &Event) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => event.object.key.namespace() == &**namespace,
            Self::Object(key) => event.object.key == *key,
            Self::Field { index, value } => {
                let [now, before] = values(event, *index);
                now == Some(value) || before == Some(value)
            }
        }
    }
}

/// Returns the value of a field after the event and before it.
fn values(event: &Event, index: usize) -> [Option<&str>; 2] {
    let now = event.object.fields.get(index);
    let before = event.previous.as_ref().and_then(|o| o.fields.get(index));
    [now, before].map(|value| value.map(|value| &**value))
}

/// The events of one topic, since its first subscription.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) events: RwLock<Events>,
    published: Arc<Notify>,
}

#[derive(Debug)]
pub(super) struct Events {
    /// From this sequence number on, `numbers` has all events of the topic that
    /// are in the log. Earlier events of the topic are not known.
    pub(super) since: u64,
    pub(super) numbers: VecDeque<u64>,
    /// The number after the topic's last event that has left the log.
    pub(super) lost: u64,
    touched: bool,
}

/// A subscriber's access to its topic, to wait for events and to read them.
#[derive(Debug)]
pub struct Subscription {
    topics: Arc<Topics>,
    pub(super) topic: Topic,
    pub(super) line: Arc<Line>,
}

impl Subscription {
    /// Resolves when something is published after this call: an event of the
    /// topic, or what concerns every topic (a resync, or the end of the store).
    pub fn published(&self) -> OwnedNotified {
        self.line.published.clone().notified_owned()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.topics.leave(&self.topic);
    }
}

/// The topics of one resource. There are at most as many as subscriptions, and
/// each has at most as many numbers as the log has events.
#[derive(Debug, Default)]
pub(super) struct Topics(Mutex<Subscriptions>);

#[derive(Debug, Default)]
struct Subscriptions {
    lines: Lines,
    /// The lines whose subscribers are to be woken.
    touched: Vec<Arc<Line>>,
}

/// Lines, each with the number of its subscribers.
type LinesByKey<K> = HashMap<K, (Arc<Line>, usize)>;

#[derive(Debug, Default)]
struct Lines {
    all: LinesByKey<()>,
    namespaces: LinesByKey<Box<str>>,
    objects: LinesByKey<ObjectKey>,
    /// By the field's index. A field without subscribers costs no look-up.
    fields: BTreeMap<usize, LinesByKey<Box<str>>>,
}

impl Topics {
    /// Subscribes to a topic. `next` is the sequence number of the next event.
    /// The caller sees to it that no event is appended meanwhile.
    pub(super) fn join(self: &Arc<Self>, topic: Topic, next: u64) -> Subscription {
        let lines = &mut self.0.lock().lines;
        let line = match &topic {
            Topic::All => join(&mut lines.all, (), next),
            Topic::Namespace(namespace) => join(&mut lines.namespaces, namespace.clone(), next),
            Topic::Object(key) => join(&mut lines.objects, key.clone(), next),
            Topic::Field { index, value } => {
                let values = lines.fields.entry(*index).or_default();
                join(values, value.clone(), next)
            }
        };
        Subscription {
            topics: self.clone(),
            topic,
            line,
        }
    }

    fn leave(&self, topic: &Topic) {
        let lines = &mut self.0.lock().lines;
        match topic {
            Topic::All => leave(&mut lines.all, &()),
            Topic::Namespace(namespace) => leave(&mut lines.namespaces, namespace),
            Topic::Object(key) => leave(&mut lines.objects, key),
            Topic::Field { index, value } => {
                if let Some(values) = lines.fields.get_mut(index) {
                    leave(values, value);
                    if values.is_empty() {
                        lines.fields.remove(index);
                    }
                }
            }
        }
    }

    /// Notes that an event was appended to the log.
    pub(super) fn append(&self, event: &Event, number: u64) {
        let Subscriptions { lines, touched } = &mut *self.0.lock();
        lines.of(event, |line| {
            line.events.write().numbers.push_back(number);
            line.touch(touched);
        });
    }

    /// Notes that the oldest event has left the log.
    pub(super) fn evict(&self, event: &Event, number: u64) {
        self.0.lock().lines.of(event, |line| {
            let events = &mut *line.events.write();
            // A topic does not know of events older than itself.
            if events.numbers.front() == Some(&number) {
                events.numbers.pop_front();
                events.lost = number.saturating_add(1);
            }
        });
    }

    /// Notes that all events have left the log.
    pub(super) fn clear(&self) {
        for line in self.0.lock().lines.iter() {
            line.events.write().numbers.clear();
        }
    }

    /// Marks all lines for the next [`wake`](Self::wake): something has
    /// happened that concerns every subscriber.
    pub(super) fn touch_all(&self) {
        let Subscriptions { lines, touched } = &mut *self.0.lock();
        lines.iter().for_each(|line| line.touch(touched));
    }

    /// Wakes the subscribers of all marked lines. The caller calls it after the
    /// log and the snapshot are in place.
    pub(super) fn wake(&self) {
        let touched = {
            let touched = std::mem::take(&mut self.0.lock().touched);
            touched
                .iter()
                .for_each(|l| l.events.write().touched = false);
            touched
        };
        for line in touched {
            line.published.notify_waiters();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().lines.iter().count()
    }
}

impl Lines {
    /// Calls `each` once for each line that holds the event.
    fn of(&self, event: &Event, mut each: impl FnMut(&Arc<Line>)) {
        let key = &event.object.key;
        let always = [
            self.all.get(&()),
            self.namespaces.get(key.namespace()),
            self.objects.get(key),
        ];
        for (line, _) in always.into_iter().flatten() {
            each(line);
        }
        for (index, lines) in &self.fields {
            let [now, before] = values(event, *index);
            let before = before.filter(|before| now != Some(before));
            for value in [now, before].into_iter().flatten() {
                if let Some((line, _)) = lines.get(value) {
                    each(line);
                }
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Line>> {
        let fields = self.fields.values().flat_map(HashMap::values);
        let all = self.all.values().chain(self.namespaces.values());
        let all = all.chain(self.objects.values()).chain(fields);
        all.map(|(line, _)| line)
    }
}

impl Line {
    fn since(next: u64) -> Self {
        Self {
            events: RwLock::new(Events {
                since: next,
                numbers: VecDeque::new(),
                lost: 0,
                touched: false,
            }),
            published: Arc::default(),
        }
    }

    fn touch(self: &Arc<Self>, touched: &mut Vec<Arc<Self>>) {
        if !std::mem::replace(&mut self.events.write().touched, true) {
            touched.push(self.clone());
        }
    }
}

fn join<K: Eq + Hash>(lines: &mut LinesByKey<K>, key: K, next: u64) -> Arc<Line> {
    let begin = || (Arc::new(Line::since(next)), 0);
    let (line, subscribers) = lines.entry(key).or_insert_with(begin);
    *subscribers = subscribers.saturating_add(1);
    line.clone()
}

fn leave<K: Eq + Hash>(lines: &mut LinesByKey<K>, key: &K) {
    if let Some((_, subscribers)) = lines.get_mut(key) {
        *subscribers = subscribers.saturating_sub(1);
        if *subscribers == 0 {
            lines.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::api::{FieldSelector, GroupVersionResource, LabelSelector};
    use kubernetes_wire::representation::{Envelope, Form};

    use super::*;
    use crate::store::{Resource, field_table};

    fn topic(resource: &str, namespace: &str, fields: &str) -> Topic {
        let gvr = GroupVersionResource::new("", "v1", resource);
        let resource = Resource {
            namespaced: resource == "pods",
            fields: field_table(&gvr),
            gvr,
            envelope: Envelope::new(Form::Struct, "v1", "X", "XList"),
            bookmark: Default::default(),
        };
        let (labels, fields) = (LabelSelector::default(), FieldSelector::parse(fields));
        Topic::of(&Filter::new(namespace, labels, fields.unwrap(), &resource).unwrap())
    }

    #[test]
    fn the_smallest_topic_is_taken() {
        let object = |namespace, name| Topic::Object(ObjectKey::new(namespace, name));
        let namespace = |name: &str| Topic::Namespace(name.into());
        let field = |(resource, label): (&str, &str), value: &str| {
            let table = field_table(&GroupVersionResource::new("", "v1", resource));
            let Some(Selectable::Column(index)) = table.lookup(label, true) else {
                panic!("{resource} cannot be selected by {label}");
            };
            let value = value.into();
            Topic::Field { index, value }
        };
        let node = ("pods", "spec.nodeName");
        let phase = ("pods", "status.phase");
        let unschedulable = ("nodes", "spec.unschedulable");
        for (resource, within, fields, expected) in [
            ("pods", "", "", Topic::All),
            ("pods", "a", "", namespace("a")),
            ("pods", "", "metadata.namespace=a", namespace("a")),
            ("pods", "", "metadata.namespace!=a", Topic::All),
            ("pods", "a", "metadata.name=x", object("a", "x")),
            ("pods", "a", "metadata.name!=x", namespace("a")),
            ("pods", "", "metadata.name=x", Topic::All),
            ("pods", "", "spec.nodeName=n", field(node, "n")),
            ("pods", "", "spec.nodeName!=n", Topic::All),
            (
                "pods",
                "",
                "metadata.name=x,spec.nodeName=n",
                field(node, "n"),
            ),
            (
                "pods",
                "a",
                "status.phase=Running,spec.nodeName=",
                field(node, ""),
            ),
            ("pods", "a", "status.phase=Running", namespace("a")),
            ("pods", "", "status.phase=Running", field(phase, "Running")),
            ("nodes", "", "metadata.name=n", object("", "n")),
            (
                "nodes",
                "",
                "spec.unschedulable=false",
                field(unschedulable, "false"),
            ),
        ] {
            assert_eq!(
                topic(resource, within, fields),
                expected,
                "{within} {fields}"
            );
        }
    }
}
