//! The history of writes, and the check whether a read fits into it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Absent,
    Present { version: u64, even: bool },
}

impl State {
    /// Returns the version that a read sees that selects all objects, or only
    /// even ones.
    pub fn seen(self, only_even: bool) -> Option<u64> {
        match self {
            Self::Absent => None,
            Self::Present { version, even } => (even || !only_even).then_some(version),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub begun: Instant,
    pub acknowledged: Instant,
    pub state: State,
}

/// One answer, with the versions of the objects in it.
#[derive(Debug)]
pub struct Read {
    pub begun: Instant,
    pub ended: Instant,
    /// The version of a list. `None` for a GET.
    pub version: Option<u64>,
    pub only_even: bool,
    /// The keys and their versions. A GET has only the key that was asked for.
    pub keys: BTreeMap<String, Option<u64>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Fits,
    /// The read does not show a write that was acknowledged this long before
    /// the read began.
    Stale(Duration),
    /// The read shows a state that never was, or was not yet.
    Impossible(String),
}

/// All writes. Each key has one writer, which waits for each answer, so that
/// the writes of a key are in order. The first entry says that the key does not
/// exist.
#[derive(Default)]
pub struct History {
    pub writes: BTreeMap<String, Vec<Write>>,
    /// For each key all states with their versions, from the API server's
    /// watch: a deletion does not tell its writer the version.
    pub versions: BTreeMap<String, Vec<(u64, State)>>,
}

impl History {
    /// Checks the linearizability of one read: each key must have a state
    /// between the last write acknowledged before the read and the last write
    /// begun before its end.
    pub fn judge(&self, read: &Read) -> Verdict {
        let mut verdict = Verdict::Fits;
        for (key, seen) in &read.keys {
            match self.judge_key(key, *seen, read) {
                Verdict::Fits => {}
                Verdict::Stale(late) => match &mut verdict {
                    Verdict::Stale(so_far) => *so_far = late.max(*so_far),
                    _ => verdict = Verdict::Stale(late),
                },
                impossible => return impossible,
            }
        }
        match self.torn(read) {
            Some(text) => Verdict::Impossible(text),
            None => verdict,
        }
    }

    fn judge_key(&self, key: &str, seen: Option<u64>, read: &Read) -> Verdict {
        let Some(writes) = self.writes.get(key) else {
            return Verdict::Impossible(format!("{key} is nobody's"));
        };
        let begun = writes.partition_point(|w| w.begun <= read.ended);
        let acknowledged = writes.partition_point(|w| w.acknowledged <= read.begun);
        let matching = writes[..begun]
            .iter()
            .rposition(|w| w.state.seen(read.only_even) == seen);
        let Some(at) = matching else {
            let told = self.versions.get(key).map_or(&[][..], Vec::as_slice);
            let told = told.iter().any(|(version, _)| Some(*version) == seen);
            let last = writes[..begun].iter().rev().take(3);
            let last: Vec<State> = last.map(|write| write.state).collect();
            return Verdict::Impossible(format!(
                "{key} was not at {seen:?} yet, or never. The API server's own watch told of \
                 that: {told}. The last writes until then: {last:?}"
            ));
        };
        // This is the first acknowledged write that the read does not show.
        match writes[..acknowledged].get(at + 1) {
            None => Verdict::Fits,
            Some(missed) => Verdict::Stale(read.begun - missed.acknowledged),
        }
    }

    /// Describes a key whose state is not that at the list's version. A list
    /// must be the whole state at its version.
    fn torn(&self, read: &Read) -> Option<String> {
        let at = read.version?;
        for (key, seen) in &read.keys {
            let states = self.versions.get(key).map_or(&[][..], Vec::as_slice);
            let after = states.partition_point(|(version, _)| *version <= at);
            let state = match after {
                0 => State::Absent,
                n => states[n - 1].1,
            };
            if state.seen(read.only_even) != *seen {
                return Some(format!(
                    "a list of version {at} shows {key} at {seen:?}; it was {state:?}"
                ));
            }
        }
        None
    }
}

/// The checker itself is tested first.
#[test]
fn verdicts() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let write = |begun: u64, acknowledged: u64, state: State| Write {
        begun: at(begun),
        acknowledged: at(acknowledged),
        state,
    };
    let present = |version: u64, even: bool| State::Present { version, even };
    let mut history = History::default();
    history.writes.insert(
        "k".to_owned(),
        vec![
            write(0, 0, State::Absent),
            write(10, 20, present(5, true)),
            write(30, 40, present(6, false)),
            write(50, 60, State::Absent),
        ],
    );
    let versions = vec![
        (5, present(5, true)),
        (6, present(6, false)),
        (7, State::Absent),
    ];
    history.versions.insert("k".to_owned(), versions);
    let read = |begun: u64, ended: u64, version: Option<u64>, seen: Option<u64>| Read {
        begun: at(begun),
        ended: at(ended),
        version,
        only_even: false,
        keys: BTreeMap::from([("k".to_owned(), seen)]),
    };
    let stale = |ms: u64| Verdict::Stale(Duration::from_millis(ms));
    assert_eq!(history.judge(&read(1, 5, None, None)), Verdict::Fits);
    assert_eq!(history.judge(&read(11, 19, None, None)), Verdict::Fits);
    assert_eq!(history.judge(&read(11, 19, None, Some(5))), Verdict::Fits);
    assert_eq!(history.judge(&read(25, 28, None, None)), stale(5));
    assert_eq!(history.judge(&read(25, 35, None, Some(6))), Verdict::Fits);
    assert_eq!(history.judge(&read(45, 48, None, Some(5))), stale(5));
    assert_eq!(history.judge(&read(65, 68, None, Some(5))), stale(25));
    assert_eq!(history.judge(&read(65, 68, Some(7), None)), Verdict::Fits);
    for impossible in [
        read(1, 5, None, Some(5)),
        read(25, 28, None, Some(6)),
        read(1, 90, None, Some(8)),
        read(41, 49, Some(5), Some(6)),
    ] {
        let verdict = history.judge(&impossible);
        assert!(matches!(verdict, Verdict::Impossible(_)), "{verdict:?}");
    }
    // An object that leaves a selection has changed, too.
    let mut selected = read(45, 48, Some(6), None);
    selected.only_even = true;
    assert_eq!(history.judge(&selected), Verdict::Fits);
}
