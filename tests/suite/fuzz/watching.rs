//! Compares watches of both servers while writers are at work.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::request::Read;
use super::world::Memory;
use crate::harness::client::{Answer, Client};

/// The content of one stream, which lasts a second.
#[derive(Debug, Default)]
struct Seen {
    /// The events in order, without bookmarks.
    events: Vec<Event>,
    /// The number of initial events.
    initial: usize,
    /// The version of the initial state.
    began: u64,
    /// The newest version in the stream.
    end: u64,
    error: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    kind: String,
    key: String,
    version: u64,
    line: String,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(rename = "resourceVersion", default)]
    version: String,
}

#[derive(Debug, Default)]
pub struct Compared {
    pub difference: String,
    /// Whether the two streams had a version in common.
    pub comparable: bool,
    /// The number of events, directly and through apifront.
    pub events: (usize, usize),
    pub cache: String,
}

/// Opens both streams from the same start, and compares them up to the version that
/// both have seen.
pub async fn check(direct: &Client, front: &Client, memory: &Memory, read: &Read) -> Compared {
    let (target, headers) = (read.target(), read.headers());
    let debug = [headers.as_slice(), &[("x-apifront-debug", "cache")]].concat();
    let (right, found) = tokio::join!(
        direct.send(Method::GET, &target, &headers, ""),
        front.send(Method::GET, &target, &debug, ""),
    );
    let cache = found.header("x-apifront-cache").to_owned();
    let from = read.value("resourceVersion");
    let from = from.and_then(|v| v.parse().ok()).unwrap_or(0);
    let (right, found) = (Seen::read(&right, from), Seen::read(&found, from));
    for version in [right.end, found.end] {
        if version > 0 {
            memory.add_version(read.kind, version);
        }
    }
    // apifront may have a longer history. That is no difference.
    if right.error.contains("Expired") {
        return Compared {
            cache,
            ..Compared::default()
        };
    }
    let difference = match (right.error.as_str(), found.error.as_str()) {
        ("", "") => right.compare(&found),
        (r, f) if r == f => Some(String::new()),
        (r, f) => Some(format!("  errors: - {r}\n          + {f}\n")),
    };
    Compared {
        comparable: difference.is_some(),
        difference: difference.unwrap_or_default(),
        events: (right.events.len(), found.events.len()),
        cache,
    }
}

impl Seen {
    fn read(answer: &Answer, from: u64) -> Self {
        let mut seen = Self {
            end: from,
            ..Self::default()
        };
        if answer.status != 200 {
            seen.error = format!("{} {}", answer.status, answer.text());
            return seen;
        }
        for line in answer.text().lines() {
            let frame: Frame = serde_json::from_str(line).expect("a frame");
            if frame.kind == "ERROR" {
                seen.error = line.to_owned();
                return seen;
            }
            let object: Object = serde_json::from_str(frame.object.get()).expect("an object");
            let version = object.metadata.version.parse().unwrap_or(0);
            seen.end = seen.end.max(version);
            if frame.kind == "BOOKMARK" {
                if line.contains("k8s.io/initial-events-end") {
                    seen.initial = seen.events.len();
                    seen.began = version;
                }
                continue;
            }
            seen.events.push(Event {
                kind: frame.kind.to_owned(),
                key: format!("{}/{}", object.metadata.namespace, object.metadata.name),
                version,
                line: line.to_owned(),
            });
        }
        seen
    }

    /// Returns the difference, or `None` if the streams cannot be compared.
    fn compare(&self, found: &Self) -> Option<String> {
        if let Some(text) = found.disorder() {
            return Some(text);
        }
        if self.began == found.began {
            let same = self.events.len().min(found.events.len());
            return Some(lines(&self.events[..same], &found.events[..same]));
        }
        let common = self.end.min(found.end);
        if common < self.began.max(found.began) {
            return None;
        }
        Some(lines(&self.state(common), &found.state(common)))
    }

    /// Describes events after the initial state whose versions do not grow.
    fn disorder(&self) -> Option<String> {
        let live = &self.events[self.initial..];
        let ordered = live.is_sorted_by(|a, b| a.version < b.version);
        let late = live.first().is_some_and(|e| e.version <= self.began);
        (!ordered || late).then(|| format!("  out of order after {}: {live:#?}\n", self.began))
    }

    /// Returns the objects that existed at `version` according to the stream.
    fn state(&self, version: u64) -> Vec<Event> {
        let mut state = BTreeMap::new();
        for (n, event) in self.events.iter().enumerate() {
            if n >= self.initial && event.version > version {
                break;
            }
            match event.kind.as_str() {
                "DELETED" => {
                    state.remove(&event.key);
                }
                _ => {
                    let mut event = event.clone();
                    // A stream that began later shows the event as ADDED.
                    event.line = event.line.replacen("MODIFIED", "ADDED", 1);
                    event.kind = String::new();
                    state.insert(event.key.clone(), event);
                }
            }
        }
        state.into_values().collect()
    }
}

/// Returns the first difference, or an empty text.
fn lines(right: &[Event], found: &[Event]) -> String {
    let same = right.iter().zip(found).take_while(|(a, b)| a == b).count();
    if same == right.len() && same == found.len() {
        return String::new();
    }
    format!(
        "  event {same} of {} and {}:\n  - {:?}\n  + {:?}\n",
        right.len(),
        found.len(),
        right.get(same).map(|e| &e.line),
        found.get(same).map(|e| &e.line),
    )
}
