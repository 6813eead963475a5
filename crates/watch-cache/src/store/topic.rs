//! Topics and the subscriptions to them. A topic is the smallest set of events that
//! a watcher needs.
//!
//! Thousands of watchers of one resource, each for its own node, must not all
//! be woken by each event. Each event is looked up by hash in the topics that
//! it belongs to, and wakes only their subscribers. A topic keeps the sequence
//! numbers of its events; the events are in the log. A topic exists while it
//! has subscribers.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kubernetes_wire::api::Shard;
use parking_lot::Mutex;
use tokio::sync::futures::OwnedNotified;

use super::fields::Selectable;
use super::shard_lines::{self, ShardLines};
use super::topic_line::Line;
use super::view_lines::ViewLines;
use super::wake_groups::Member;
use super::{Event, Filter, KeyScope, ObjectKey, Visible};

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
    /// Objects of a shard.
    Shard(Shard),
    /// The objects in all namespaces that a caller may see.
    View(Visible),
}

impl Topic {
    /// Returns the smallest topic that has all events that a filter can match.
    pub fn from_filter(filter: &Filter) -> Self {
        let required = |field| filter.fields.required(field);
        let namespace = match &filter.scope {
            KeyScope::Namespace(namespace) => Some(namespace.as_str()),
            KeyScope::All | KeyScope::Visible(_) => required("metadata.namespace"),
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
            (None, _) => match (fields.next(), &filter.shard) {
                (Some((_, field)), _) => field,
                (None, Some(shard)) => Self::Shard(shard.clone()),
                (None, None) => match &filter.scope {
                    KeyScope::Visible(visible) => Self::View(visible.clone()),
                    KeyScope::All | KeyScope::Namespace(_) => Self::All,
                },
            },
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
            Self::Shard(shard) => shard_lines::holds(shard, event),
            Self::View(visible) => visible.contains(&event.object.key),
        }
    }
}

/// Returns the value of a field after the event and before it.
fn values(event: &Event, index: usize) -> [Option<&str>; 2] {
    let now = event.object.fields().get(index);
    let before = event.previous.as_ref().and_then(|o| o.fields().get(index));
    [now, before]
}

/// A subscriber's access to its topic, to wait for events and to read them.
#[derive(Debug)]
pub struct Subscription {
    topics: Arc<Topics>,
    pub(super) topic: Topic,
    pub(super) line: Arc<Line>,
    /// The subscriber's place among those that are woken. `None` before it waits
    /// for the first time, and while it rests.
    member: Option<Member>,
    /// Whether the subscriber is woken as a group of its own.
    is_group: bool,
}

impl Subscription {
    /// Resolves when something is published after this call: an event of the topic,
    /// or something that concerns every topic (a resync, or the end of the store).
    pub fn published(&mut self) -> OwnedNotified {
        let subscribers = &self.line.subscribers;
        let join = || match self.is_group {
            true => subscribers.join_alone(),
            false => subscribers.join(),
        };
        self.member.get_or_insert_with(join).woken()
    }

    /// Stops being woken until it waits again.
    pub(crate) fn rest(&mut self) {
        if let Some(member) = self.member.take() {
            self.line.subscribers.leave(&member);
        }
    }

    /// Returns a subscription to the same topic for a holder that writes to a whole
    /// group of clients.
    pub(crate) fn for_group(&self) -> Self {
        // The line exists already, so this number is not used.
        let mut subscription = self.topics.join(self.topic.clone(), 0);
        subscription.is_group = true;
        subscription
    }

    /// Returns a number that identifies the topic while one of its subscriptions
    /// lives.
    pub(crate) fn line_id(&self) -> usize {
        Arc::as_ptr(&self.line).addr()
    }

    /// Returns a number that changes with each publication. A reader that has read
    /// the log to its end has nothing to read until the number changes.
    pub fn publications(&self) -> u64 {
        self.line.publications.load(Ordering::Acquire)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.rest();
        self.topics.leave(&self.topic);
    }
}

/// The topics of one resource. There are at most as many topics as subscriptions. A
/// topic has at most as many numbers as the log has events.
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
    shards: ShardLines,
    views: ViewLines,
}

impl Topics {
    /// Subscribes to a topic. `next` is the sequence number of the next event. The
    /// caller ensures that no event is appended meanwhile.
    pub(super) fn join(self: &Arc<Self>, topic: Topic, next: u64) -> Subscription {
        let (topic, line) = self.0.lock().lines.join(topic, next);
        Subscription {
            topics: self.clone(),
            topic,
            line,
            member: None,
            is_group: false,
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
            Topic::Shard(shard) => lines.shards.leave(shard),
            Topic::View(visible) => lines.views.leave(visible),
        }
    }

    /// Notes that an event was appended to the log.
    pub(super) fn append(&self, event: &Event, number: u64) {
        let Subscriptions { lines, touched } = &mut *self.0.lock();
        lines.for_each_holding(event, |line| {
            line.events.write().numbers.push_back(number);
            line.touch(touched);
        });
    }

    /// Notes that the oldest event has left the log.
    pub(super) fn evict(&self, event: &Event, number: u64) {
        self.0.lock().lines.for_each_holding(event, |line| {
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

    /// Wakes the subscribers of all marked lines. The log and the snapshot must be
    /// in place.
    pub(super) fn wake(&self) {
        let touched = {
            let touched = std::mem::take(&mut self.0.lock().touched);
            touched
                .iter()
                .for_each(|l| l.events.write().touched = false);
            touched
        };
        for line in touched {
            line.subscribers.wake();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().lines.iter().count()
    }
}

impl Lines {
    /// Returns the line of a topic, or of a larger topic if there are too many of
    /// its kind.
    fn join(&mut self, topic: Topic, next: u64) -> (Topic, Arc<Line>) {
        let line = match &topic {
            Topic::All => join(&mut self.all, (), next),
            Topic::Namespace(namespace) => join(&mut self.namespaces, namespace.clone(), next),
            Topic::Object(key) => join(&mut self.objects, key.clone(), next),
            Topic::Field { index, value } => {
                let values = self.fields.entry(*index).or_default();
                join(values, value.clone(), next)
            }
            Topic::Shard(shard) => match self.shards.join(shard, next) {
                Some(line) => line,
                None => return self.join(Topic::All, next),
            },
            Topic::View(visible) => match self.views.join(visible, next) {
                Some(line) => line,
                None => return self.join(Topic::All, next),
            },
        };
        (topic, line)
    }

    /// Calls `each` once for each line that holds the event.
    fn for_each_holding(&self, event: &Event, mut each: impl FnMut(&Arc<Line>)) {
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
        self.shards.for_each_holding(event, &mut each);
        self.views.for_each_holding(event, each);
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Line>> {
        let fields = self.fields.values().flat_map(HashMap::values);
        let all = self.all.values().chain(self.namespaces.values());
        let all = all.chain(self.objects.values()).chain(fields);
        let all = all.map(|(line, _)| line);
        all.chain(self.shards.iter()).chain(self.views.iter())
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
    use kubernetes_wire::api::{FieldSelector, GroupVersionResource, LabelSelector, ShardSelector};
    use kubernetes_wire::representation::{Envelope, Form};

    use super::*;
    use crate::store::tests::pods;
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
        Topic::from_filter(&Filter::new(namespace, labels, fields.unwrap(), &resource).unwrap())
    }

    #[test]
    fn a_shard_is_a_topic_where_no_smaller_one_is() {
        let resource = pods::resource();
        let half = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')";
        let shard = ShardSelector::parse(half).unwrap().shard().clone();
        for (within, fields, expected) in [
            ("", "", true),
            ("", "metadata.name!=x", true),
            ("a", "", false),
            ("", "spec.nodeName=n", false),
            ("", "metadata.namespace=a", false),
        ] {
            let (labels, fields) = (LabelSelector::default(), FieldSelector::parse(fields));
            let filter = Filter::new(within, labels, fields.unwrap(), &resource).unwrap();
            let topic = Topic::from_filter(&filter.of_shard(Some(shard.clone())));
            assert_eq!(topic == Topic::Shard(shard.clone()), expected, "{within}");
        }
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
