//! Compares a watcher's events with etcd's log of writes.

use std::collections::{BTreeMap, BTreeSet};

use super::recorder::{Heard, Pace, Recorded};
use crate::harness::etcd::Written;

/// The objects that a watcher selects. The writer gives the label value [`CHOSEN`]
/// to those that the selector chooses.
#[derive(Clone, Copy, Debug)]
pub enum Selects {
    All,
    Chosen,
    Name(&'static str),
}

pub const CHOSEN: &str = "chosen-by-label";

impl Selects {
    fn holds(self, written: &Written) -> bool {
        match self {
            Self::All => true,
            Self::Name(name) => written.key == name,
            Self::Chosen => {
                let label = CHOSEN.as_bytes();
                written.value.windows(label.len()).any(|w| w == label)
            }
        }
    }
}

pub fn expected(log: &[Written], selects: Selects) -> Vec<(String, String, u64)> {
    let mut inside: BTreeSet<&str> = BTreeSet::new();
    let mut events = Vec::new();
    for written in log {
        let was = inside.contains(written.key.as_str());
        let is = written.kind != "DELETED" && selects.holds(written);
        let kind = match (was, is) {
            (false, false) => continue,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        match is {
            true => inside.insert(&written.key),
            false => inside.remove(written.key.as_str()),
        };
        events.push((kind.to_owned(), written.key.clone(), written.revision));
    }
    events
}

/// Fails if an event is lost, repeated or out of order.
pub fn assert_complete(recorded: &Recorded, log: &[Written], selects: Selects) {
    let expected = expected(log, selects);
    let heard = recorded.events.iter().map(tuple).collect::<Vec<_>>();
    let what = &recorded.what;
    assert!(!recorded.expired, "{what}: the version was too old");
    let same = heard.iter().zip(&expected).take_while(|(a, b)| a == b);
    let same = same.count();
    assert!(
        heard.len() == expected.len() && same == heard.len(),
        "{what}: event {same} is {:?}, not {:?}; {} events, {} expected",
        heard.get(same),
        expected.get(same),
        heard.len(),
        expected.len(),
    );
}

/// Checks a watch across a relist of the reflector. The events must be consistent
/// and end in the true state, and only events that later ones have overtaken may be
/// missing. Returns the number of overtaken events.
///
/// Only a watcher that disconnects amid the events of a relist may be told that its
/// version is too old, since it has seen some of the deletions that have lost their
/// versions.
pub fn assert_caught_up(recorded: &Recorded, log: &[Written], selects: Selects) -> usize {
    let expected = expected(log, selects);
    let what = &recorded.what;
    let leaves = matches!(recorded.pace, Pace::Restless(_));
    assert!(
        leaves || !recorded.expired,
        "{what}: the version was too old"
    );
    let known: BTreeSet<(&str, u64)> = expected
        .iter()
        .map(|(_, name, version)| (name.as_str(), *version))
        .collect();
    let mut state: BTreeMap<String, u64> = BTreeMap::new();
    for heard in &recorded.events {
        let before = match heard.kind.as_str() {
            // A deletion that a list found has lost its own version.
            "DELETED" => state.remove(&heard.name),
            _ => {
                let is_known = known.contains(&(heard.name.as_str(), heard.version));
                assert!(is_known, "{what}: nobody wrote {heard:?}");
                state.insert(heard.name.clone(), heard.version)
            }
        };
        let fits = before.is_some() == (heard.kind != "ADDED");
        assert!(fits, "{what}: {heard:?}, and it was {before:?}");
    }
    if recorded.expired {
        return 0;
    }
    let mut truth: BTreeMap<String, u64> = BTreeMap::new();
    for (kind, name, version) in &expected {
        match kind.as_str() {
            "DELETED" => truth.remove(name),
            _ => truth.insert(name.clone(), *version),
        };
    }
    assert_eq!(state, truth, "{what}: the end");
    expected.len().saturating_sub(recorded.events.len())
}

fn tuple(heard: &Heard) -> (String, String, u64) {
    (heard.kind.clone(), heard.name.clone(), heard.version)
}
