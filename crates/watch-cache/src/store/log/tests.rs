//! Random histories: a reader gets all events of its topic in order, or an
//! error.

use bytes::Bytes;
use kubernetes_wire::api::GroupVersionResource;
use proptest::prelude::*;

use super::*;
use crate::store::{Change, ObjectKey, StoredObject, field_table};

/// The object of an event: pods in two namespaces, with two names, on two
/// nodes. `before` is the node before the event, if there was one.
#[derive(Clone, Copy, Debug)]
struct About {
    namespace: usize,
    name: usize,
    node: usize,
    before: Option<usize>,
}

fn about() -> impl Strategy<Value = About> {
    let before = prop_oneof![Just(None), (0..2usize).prop_map(Some)];
    (0..2usize, 0..2usize, 0..2usize, before).prop_map(|(namespace, name, node, before)| About {
        namespace,
        name,
        node,
        before,
    })
}

/// A topic, and the same condition for the model.
type Selects = (fn() -> Topic, fn(About) -> bool);
const TOPICS: [Selects; 6] = [
    (|| Topic::All, |_| true),
    (|| Topic::Namespace("n0".into()), |a| a.namespace == 0),
    (|| Topic::Namespace("n1".into()), |a| a.namespace == 1),
    (
        || Topic::Object(ObjectKey::new("n1", "p0")),
        |a| (a.namespace, a.name) == (1, 0),
    ),
    (|| on_node("0"), |a| a.node == 0 || a.before == Some(0)),
    (|| on_node("1"), |a| a.node == 1 || a.before == Some(1)),
];

fn on_node(value: &str) -> Topic {
    Topic::Field {
        index: 0,
        value: value.into(),
    }
}

fn event(version: u64, padding: usize, about: About, now: Instant) -> Arc<Event> {
    let fields = field_table(&GroupVersionResource::new("", "v1", "pods"));
    let padding = "x".repeat(padding);
    let About {
        namespace, name, ..
    } = about;
    let object = |node: usize| {
        let item = format!(
            r#"{{"metadata":{{"namespace":"n{namespace}","name":"p{name}","resourceVersion":"{version}"}},"spec":{{"nodeName":"{node}"}},"data":"{padding}"}}"#
        );
        Arc::new(StoredObject::parse(Bytes::from(item), &fields).unwrap())
    };
    let (object, before) = (object(about.node), about.before.map(object));
    Arc::new(Event::new(Change::Modified, version, object, before, now))
}

#[derive(Clone, Debug)]
enum Step {
    Append {
        skip: u64,
        padding: usize,
        about: About,
    },
    Sleep {
        seconds: u64,
    },
    Resync {
        events: Vec<About>,
        skip: u64,
    },
    Reset {
        version: u64,
    },
    Begin {
        back: u64,
        topic: usize,
    },
    Read {
        reader: usize,
        bytes: usize,
    },
    Leave {
        reader: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let events = proptest::collection::vec(about(), 0..4);
    prop_oneof![
        16 => (1..4u64, 0..400usize, about())
            .prop_map(|(skip, padding, about)| Step::Append { skip, padding, about }),
        3 => (0..8u64).prop_map(|seconds| Step::Sleep { seconds }),
        1 => (events, 0..9u64).prop_map(|(events, skip)| Step::Resync { events, skip }),
        1 => (0..60u64).prop_map(|version| Step::Reset { version }),
        6 => (0..30u64, 0..TOPICS.len()).prop_map(|(back, topic)| Step::Begin { back, topic }),
        12 => (0..9usize, 1..3000usize).prop_map(|(reader, bytes)| Step::Read { reader, bytes }),
        2 => (0..9usize).prop_map(|reader| Step::Leave { reader }),
    ]
}

const LIMITS: Limits = Limits {
    age: Duration::from_secs(20),
    bytes: 8_000,
    min_events: 5,
    gaps: 2,
};

/// All events that ever happened, and those that a log must still have.
struct Model {
    log: Log,
    now: Instant,
    version: u64,
    /// Every event since the last reset.
    events: Vec<Happened>,
    /// The number of events that have left the log.
    gone: usize,
    floor: u64,
    /// For each gap: the version seen, the version listed, and the number of
    /// the resync.
    gaps: Vec<(u64, u64, usize)>,
    resyncs: usize,
    readers: Vec<Reader>,
    /// The number of resets. Events before the last reset are gone.
    resets: usize,
}

struct Happened {
    version: u64,
    size: usize,
    at: Instant,
    about: About,
}

struct Reader {
    subscription: Subscription,
    topic: usize,
    cursor: Cursor,
    /// The version that the reader knew when it began, if the log did not have
    /// it yet.
    ahead: Option<u64>,
    /// Index of the next event in the model.
    next: usize,
    /// The start of its topic: the number of resets and the index in the model.
    since: (usize, usize),
    /// The number of resyncs when the reader had last read everything.
    resyncs: usize,
    /// The log was reset since, or cannot know what the reader missed.
    lost: bool,
}

impl Model {
    fn append(&mut self, version: u64, padding: usize, about: About) {
        let event = event(version, padding, about, self.now);
        self.events.push(Happened {
            version,
            size: event.held(),
            at: self.now,
            about,
        });
        self.version = version;
        self.log.append(event);
    }

    fn evict(&mut self) {
        self.log.evict(self.now);
        loop {
            let kept = &self.events[self.gone..];
            let [oldest, _, ..] = kept else {
                return;
            };
            let old = self.now - oldest.at > LIMITS.age && kept.len() > LIMITS.min_events;
            let bytes: usize = kept.iter().map(|e| e.size).sum();
            if !old && bytes <= LIMITS.bytes {
                return;
            }
            self.floor = oldest.version;
            self.gone += 1;
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Append {
                skip,
                padding,
                about,
            } => {
                self.append(self.version + skip, padding, about);
                self.evict();
            }
            Step::Sleep { seconds } => {
                self.now += Duration::from_secs(seconds);
                self.evict();
            }
            Step::Resync { events, skip } => self.resync(&events, skip),
            Step::Reset { version } => {
                self.log.reset(version);
                (self.version, self.floor, self.gone) = (version, version, 0);
                self.events.clear();
                self.gaps.clear();
                self.resets += 1;
                self.readers.iter_mut().for_each(|r| r.lost = true);
            }
            Step::Begin { back, topic } => self.begin(back, topic),
            Step::Read { reader, bytes } if !self.readers.is_empty() => {
                self.read(reader % self.readers.len(), bytes);
            }
            Step::Leave { reader } if !self.readers.is_empty() => {
                self.readers.remove(reader % self.readers.len());
            }
            Step::Read { .. } | Step::Leave { .. } => {}
        }
        let bytes: usize = self.events[self.gone..].iter().map(|e| e.size).sum();
        assert_eq!(self.log.bytes(), bytes);
        assert!(self.log.gaps.len() <= LIMITS.gaps);
        let mut topics: Vec<_> = self.readers.iter().map(|r| r.topic).collect();
        topics.sort_unstable();
        topics.dedup();
        assert_eq!(self.log.topics.len(), topics.len());
    }

    fn resync(&mut self, events: &[About], skip: u64) {
        let seen = self.version;
        let listed = seen + events.len() as u64 + skip;
        self.log.resync(seen, listed);
        if listed > seen + 1 {
            for reader in &mut self.readers {
                reader.lost |= reader.ahead.is_some_and(|v| seen < v && v < listed);
            }
            self.resyncs += 1;
            self.gaps.push((seen, listed, self.resyncs));
            self.gaps.retain(|gap| gap.1 > self.floor);
            if self.gaps.len() > LIMITS.gaps {
                self.floor = self.floor.max(self.gaps.remove(0).1);
                self.gone = self.events.partition_point(|e| e.version <= self.floor);
            }
        }
        for (version, about) in (seen + 1..).zip(events) {
            self.append(version, 0, *about);
        }
        self.version = listed;
        self.evict();
    }

    fn begin(&mut self, back: u64, topic: usize) {
        // The version may be below the floor, in the log, or above it.
        let version = (self.version + 5).saturating_sub(back);
        let resynced = self.gaps.last().map_or(0, |gap| gap.1);
        let whole = self.log.begin(version);
        assert_eq!(whole.is_err(), version < self.floor.max(resynced));
        // Readers from before a resync use `position`, too.
        let began = self.log.position(version);
        assert!(whole.is_err() || whole == began);
        let gap = self
            .gaps
            .iter()
            .any(|(s, l, _)| *s < version && version < *l);
        assert_eq!(began.is_err(), version < self.floor || gap, "{version}");
        let Ok(cursor) = began else {
            return;
        };
        let shared = self.readers.iter().find(|r| r.topic == topic);
        let ahead_of_it = self.gaps.iter().filter(|gap| gap.1 > version);
        self.readers.push(Reader {
            subscription: self.log.subscribe(TOPICS[topic].0()),
            topic,
            cursor,
            ahead: (version > self.version).then_some(version),
            next: self.events.partition_point(|e| e.version <= version),
            since: shared.map_or((self.resets, self.events.len()), |r| r.since),
            resyncs: self.resyncs - ahead_of_it.count(),
            lost: false,
        });
    }

    fn read(&mut self, index: usize, bytes: usize) {
        let reader = &mut self.readers[index];
        let read = self
            .log
            .read_topic(&reader.subscription, &mut reader.cursor, bytes);
        let holds = TOPICS[reader.topic].1;
        let missed = self.events.iter().take(self.gone).skip(reader.next);
        let must = reader.lost || missed.clone().any(|e| holds(e.about));
        // The reader may also get an error if the log does not know what it
        // missed, or has forgotten a resync that woke the reader.
        let (resets, since) = reader.since;
        let unknown = resets == self.resets && reader.next < since.min(self.gone);
        let kept = self.gaps.iter().find(|gap| gap.1 > self.floor);
        let oldest = kept.map_or(self.resyncs + 1, |gap| gap.2);
        let may = must || unknown || reader.resyncs + 1 < oldest;
        let Ok((read, _)) = read else {
            assert!(may);
            self.readers.remove(index);
            return;
        };
        assert!(!must);
        let versions: Vec<_> = read.iter().map(|e| e.resource_version).collect();
        let expected = self.events.iter().enumerate().skip(reader.next);
        let mut expected = expected.filter(|(_, e)| holds(e.about));
        for version in &versions {
            let (index, event) = expected.next().unwrap();
            assert_eq!(event.version, *version);
            reader.next = index + 1;
        }
        let total: usize = read.iter().map(|e| e.size()).sum();
        if total < bytes {
            assert!(expected.next().is_none(), "there was room for more");
            (reader.next, reader.resyncs) = (self.events.len(), self.resyncs);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn readers_get_all_of_theirs_in_order_or_are_told(
        steps in proptest::collection::vec(step(), 1..200)
    ) {
        let mut model = Model {
            log: Log::with_limits(10, LIMITS),
            now: Instant::now(),
            version: 10,
            events: vec![],
            gone: 0,
            floor: 10,
            gaps: vec![],
            resyncs: 0,
            readers: vec![],
            resets: 0,
        };
        for step in steps {
            model.run(step);
        }
    }
}
