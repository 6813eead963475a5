//! What was written when, and whether a read fits in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a key may be found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Absent,
    Present { version: u64, even: bool },
}

impl State {
    /// As a read sees it that selects all, or only what is even.
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

/// One answer: the versions of what it showed.
#[derive(Debug)]
pub struct Read {
    pub begun: Instant,
    pub ended: Instant,
    /// Of a list; `None` of a GET.
    pub version: Option<u64>,
    pub only_even: bool,
    /// Of a GET the one key that was asked for.
    pub keys: BTreeMap<String, Option<u64>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Fits,
    /// It does not show a write that had been acknowledged this long before
    /// the read began.
    Stale(Duration),
    /// It shows what never was, or was not yet.
    Impossible(String),
}

/// Each key has one writer, which waits for each answer: the writes of a key
/// are in order, and the first says that it does not exist.
#[derive(Default)]
pub struct History {
    pub writes: BTreeMap<String, Vec<Write>>,
    /// By key, every state it had from a version on, as the API server's watch
    /// told: deletions tell their writer no version.
    pub versions: BTreeMap<String, Vec<(u64, State)>>,
}

impl History {
    /// Linearizability of one read: for each key a state between the last write
    /// acknowledged before it and the last begun before its end.
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
            return Verdict::Impossible(format!("{key} was not at {seen:?} yet, or never"));
        };
        // The first acknowledged write that the read does not show.
        match writes[..acknowledged].get(at + 1) {
            None => Verdict::Fits,
            Some(missed) => Verdict::Stale(read.begun - missed.acknowledged),
        }
    }

    /// A list is the state at its version, whole.
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

/// The checker is judged first.
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
    // Leaving a selection is a change too.
    let mut selected = read(45, 48, Some(6), None);
    selected.only_even = true;
    assert_eq!(history.judge(&selected), Verdict::Fits);
}
