//! The history of writes, and the check whether a read fits into it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The state of a key. Each write writes a unique number, which identifies the
/// state. The version in the answer would not suffice: with kine it can be that of a
/// later write of another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Absent,
    Present { number: u64, even: bool },
}

impl State {
    /// Returns the number that a read sees which selects all objects, or only even
    /// ones.
    pub fn seen(self, only_even: bool) -> Option<u64> {
        match self {
            Self::Absent => None,
            Self::Present { number, even } => (even || !only_even).then_some(number),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub number: u64,
    pub version: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub begun: Instant,
    pub acknowledged: Instant,
    pub state: State,
}

#[derive(Debug)]
pub struct Read {
    pub begun: Instant,
    pub ended: Instant,
    /// The version of a list. `None` for a GET.
    pub version: Option<u64>,
    pub only_even: bool,
    /// The keys with their state in the answer. A GET has only the requested key.
    pub keys: BTreeMap<String, Option<Seen>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Fits,
    /// The read does not show a write that was acknowledged this long before the
    /// read began.
    Stale(Duration),
    /// The read shows a state that never existed, or that did not exist yet.
    Impossible(String),
}

/// All writes. Each key has one writer, which waits for each answer, so the writes
/// of a key are ordered. The first entry says that the key does not exist.
#[derive(Default)]
pub struct History {
    pub writes: BTreeMap<String, Vec<Write>>,
    /// The states of each key with their versions, from the API server's watch: the
    /// answer to a deletion does not contain the version.
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

    fn judge_key(&self, key: &str, seen: Option<Seen>, read: &Read) -> Verdict {
        let told = self.versions.get(key).map_or(&[][..], Vec::as_slice);
        let told_version = |seen: Seen| {
            let state = told
                .iter()
                .find(|(_, s)| s.seen(false) == Some(seen.number));
            state.map(|(version, _)| *version)
        };
        if let Some(seen) = seen
            && told_version(seen) != Some(seen.version)
        {
            return Verdict::Impossible(format!(
                "{key} was never at {seen:?}: the API server's own watch told of {:?}",
                told_version(seen)
            ));
        }
        let seen = seen.map(|seen| seen.number);
        let Some(writes) = self.writes.get(key) else {
            return Verdict::Impossible(format!("{key} is nobody's"));
        };
        let begun = writes.partition_point(|w| w.begun <= read.ended);
        let acknowledged = writes.partition_point(|w| w.acknowledged <= read.begun);
        let matching = writes[..begun]
            .iter()
            .rposition(|w| w.state.seen(read.only_even) == seen);
        let Some(at) = matching else {
            let last = writes[..begun].iter().rev().take(3);
            let last: Vec<State> = last.map(|write| write.state).collect();
            return Verdict::Impossible(format!(
                "{key} was not at {seen:?} yet. The last writes until then: {last:?}"
            ));
        };
        // The first acknowledged write that the read does not show.
        match writes[..acknowledged].get(at + 1) {
            None => Verdict::Fits,
            Some(missed) => Verdict::Stale(read.begun - missed.acknowledged),
        }
    }

    /// Describes a key whose state is not the one at the list's version. A list must
    /// be the whole state at its version.
    fn torn(&self, read: &Read) -> Option<String> {
        let at = read.version?;
        for (key, seen) in &read.keys {
            let states = self.versions.get(key).map_or(&[][..], Vec::as_slice);
            let after = states.partition_point(|(version, _)| *version <= at);
            let state = match after {
                0 => State::Absent,
                n => states[n - 1].1,
            };
            if state.seen(read.only_even) != seen.map(|seen| seen.number) {
                return Some(format!(
                    "a list of version {at} shows {key} at {seen:?}; it was {state:?}"
                ));
            }
        }
        None
    }
}

#[test]
fn verdicts() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let write = |begun: u64, acknowledged: u64, state: State| Write {
        begun: at(begun),
        acknowledged: at(acknowledged),
        state,
    };
    let present = |number: u64, even: bool| State::Present { number, even };
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
        (15, present(5, true)),
        (16, present(6, false)),
        (17, State::Absent),
    ];
    history.versions.insert("k".to_owned(), versions);
    let written_at = |number: u64| Seen {
        number,
        version: number + 10,
    };
    let read = |begun: u64, ended: u64, version: Option<u64>, seen: Option<u64>| Read {
        begun: at(begun),
        ended: at(ended),
        version,
        only_even: false,
        keys: BTreeMap::from([("k".to_owned(), seen.map(written_at))]),
    };
    let stale = |ms: u64| Verdict::Stale(Duration::from_millis(ms));
    assert_eq!(history.judge(&read(1, 5, None, None)), Verdict::Fits);
    assert_eq!(history.judge(&read(11, 19, None, None)), Verdict::Fits);
    assert_eq!(history.judge(&read(11, 19, None, Some(5))), Verdict::Fits);
    assert_eq!(history.judge(&read(25, 28, None, None)), stale(5));
    assert_eq!(history.judge(&read(25, 35, None, Some(6))), Verdict::Fits);
    assert_eq!(history.judge(&read(45, 48, None, Some(5))), stale(5));
    assert_eq!(history.judge(&read(65, 68, None, Some(5))), stale(25));
    assert_eq!(history.judge(&read(65, 68, Some(17), None)), Verdict::Fits);
    let mut wrong_version = read(45, 48, None, Some(6));
    let seen = wrong_version.keys.values_mut().flatten();
    seen.for_each(|seen| seen.version += 1);
    for impossible in [
        wrong_version,
        read(1, 5, None, Some(5)),
        read(25, 28, None, Some(6)),
        read(1, 90, None, Some(8)),
        read(41, 49, Some(15), Some(6)),
    ] {
        let verdict = history.judge(&impossible);
        assert!(matches!(verdict, Verdict::Impossible(_)), "{verdict:?}");
    }
    // An object that leaves a selection has changed, too.
    let mut selected = read(45, 48, Some(16), None);
    selected.only_even = true;
    assert_eq!(history.judge(&selected), Verdict::Fits);
}
