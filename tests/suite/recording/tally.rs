//! Counts the outcomes of all requests.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::changes::{self, Case};
use super::exchange::{Ending, Planned, Request};
use super::ledger::Ledger;
use super::worlds::Traits;
use super::{answer_changes, left_out};

/// The number of differences to keep, after which the run ends.
const SHOWN: usize = 12;

#[derive(Default)]
pub struct Tally {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sent: usize,
    outcomes: BTreeMap<&'static str, usize>,
    connections: usize,
    differences: Vec<String>,
    /// Requests whose arrival is certain only after apifront has stopped.
    later: Vec<(Request, Traits)>,
    allowed: Vec<Allowed>,
}

/// The number of times that a request may arrive.
struct Allowed {
    number: u64,
    method: Vec<u8>,
    most: usize,
}

impl Allowed {
    fn is_read(&self) -> bool {
        matches!(self.method.as_slice(), b"GET" | b"HEAD")
    }
}

impl Tally {
    pub fn count(&self, outcome: &'static str) {
        let mut inner = self.inner.lock();
        inner.sent += 1;
        *inner.outcomes.entry(outcome).or_default() += 1;
    }

    pub fn connected(&self) {
        self.inner.lock().connections += 1;
    }

    pub fn differs(&self, text: String) {
        self.inner.lock().differences.push(text);
    }

    pub fn is_over(&self) -> bool {
        self.inner.lock().differences.len() >= SHOWN
    }

    /// Checks the request again after apifront has stopped.
    pub fn check_later(&self, request: Request, traits: Traits) {
        self.inner.lock().later.push((request, traits));
    }

    /// Notes how often a request may arrive.
    pub fn may_arrive(&self, request: &Request, planned: &Planned, is_refused: bool) {
        let mut allowed = Allowed {
            number: request.number,
            method: request.method.clone(),
            most: usize::from(!is_refused),
        };
        if !is_refused && planned.ending == Ending::NoAnswer && allowed.is_read() {
            allowed.most = MOST_ATTEMPTS;
        }
        self.inner.lock().allowed.push(allowed);
    }

    /// Makes the checks that need all arrivals, and fails if anything differs.
    pub fn finish(self, ledger: &Ledger, wanted: u64, took: Duration) {
        let mut inner = self.inner.into_inner();
        for allowed in &inner.allowed {
            let count = ledger.count(allowed.number);
            if count <= allowed.most {
                continue;
            }
            if allowed.most > 0 && count <= MOST_ATTEMPTS && allowed.is_read() {
                *inner.outcomes.entry(REPEATED).or_default() += 1;
                continue;
            }
            let (method, number) = (super::fields::shown(&allowed.method), allowed.number);
            let most = allowed.most;
            let text = format!("{method} {number} arrived {count} times, not {most} at most");
            inner.differences.push(text);
        }
        println!(
            "{}{}{}recording: {} requests over {} connections in {took:.1?}, {} of apifront's own: {:#?}",
            changes::listing(),
            answer_changes::listing(),
            left_out::listing(),
            inner.sent,
            inner.connections,
            ledger.own_count(),
            inner.outcomes,
        );
        for (request, traits) in &inner.later {
            for arrived in ledger.take(request.number) {
                let case = Case {
                    request,
                    arrived: &arrived,
                    traits,
                };
                let wrong = changes::differences(&case);
                if !wrong.is_empty() {
                    let wrong = wrong.join("\n  ");
                    let shown = request.shown();
                    inner
                        .differences
                        .push(format!("{}: {shown}\n  {wrong}", traits.name));
                }
            }
        }
        for stranger in ledger.strangers().iter().take(SHOWN) {
            inner.differences.push(format!("nobody sent {stranger:?}"));
        }
        let shown = inner.differences.iter().take(3 * SHOWN);
        let shown: Vec<&str> = shown.map(String::as_str).collect();
        let shown = shown.join("\n\n");
        assert!(inner.differences.is_empty(), "\n{shown}");
        assert!(inner.sent as u64 >= wanted, "{} requests", inner.sent);
        for outcome in [BROKEN, REPEATED] {
            let count = inner.outcomes.get(outcome).copied().unwrap_or(0);
            assert!(count * MOST_BROKEN <= inner.sent, "{count} {outcome}");
        }
    }
}

/// A read whose connection broke is repeated at most as often as apifront tries.
const MOST_ATTEMPTS: usize = 16;

/// Counts apifront's own answers to requests whose upstream connection broke,
/// although the recorder broke none: on a busy machine pings are answered too late.
pub const BROKEN: &str = "without an answer of upstream";
/// Counts reads that arrived again after such a break.
const REPEATED: &str = "repeated reads";
/// At most one in this many requests may have such a break.
const MOST_BROKEN: usize = 100;
