//! What became of all requests.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::changes::{self, Case};
use super::exchange::{Planned, Request};
use super::ledger::Ledger;
use super::worlds::Traits;
use super::{answer_changes, left_out};

/// The differences that are kept, after which the run ends.
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
    /// Requests whose arrival is complete only when apifront has stopped.
    later: Vec<(Request, Traits)>,
    /// The number and method of each request, and how often it may have arrived.
    allowed: Vec<(u64, Vec<u8>, usize)>,
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

    /// Checks the request again when apifront has stopped.
    pub fn check_later(&self, request: Request, traits: Traits) {
        self.inner.lock().later.push((request, traits));
    }

    /// Notes how often a request may have arrived.
    pub fn may_arrive(&self, request: &Request, planned: &Planned, is_refused: bool) {
        let most = match is_refused {
            true => 0,
            false => most_arrivals(request, planned),
        };
        let allowed = (request.number, request.method.clone(), most);
        self.inner.lock().allowed.push(allowed);
    }

    /// Does the checks that need all arrivals, and fails if anything differs.
    pub fn finish(self, ledger: &Ledger, wanted: u64, took: Duration) {
        let mut inner = self.inner.into_inner();
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
        for (number, method, most) in &inner.allowed {
            let count = ledger.count(*number);
            if count > *most {
                let method = super::fields::shown(method);
                let text = format!("{method} {number} arrived {count} times, not {most} at most");
                inner.differences.push(text);
            }
        }
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
        let broken = inner.outcomes.get(BROKEN).copied().unwrap_or(0);
        assert!(broken * MOST_BROKEN <= inner.sent, "{broken} {BROKEN}");
    }
}

/// A request arrives once. A read whose connection broke may be repeated, as
/// often as apifront tries.
fn most_arrivals(request: &Request, planned: &Planned) -> usize {
    let is_read = matches!(request.method.as_slice(), b"GET" | b"HEAD");
    match planned.ending {
        super::exchange::Ending::NoAnswer if is_read => MOST_ATTEMPTS,
        _ => 1,
    }
}

const MOST_ATTEMPTS: usize = 16;

/// Answers of apifront's own to requests whose connection upstream broke, though
/// the recorder broke none: on a busy machine pings are answered too late.
pub const BROKEN: &str = "without an answer of upstream";
/// One of so many requests may be such a one.
const MOST_BROKEN: usize = 100;
