//! The shared memory of a test's recorders: the planned answers, and everything that
//! arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::exchange::{Arrived, NUMBER, Planned};
use super::fields;

#[derive(Default)]
pub struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    planned: HashMap<u64, Arc<Planned>>,
    arrived: HashMap<u64, Vec<Arrived>>,
    /// The number of arrivals of each request.
    counts: HashMap<u64, usize>,
    /// Unexpected requests: no client sent them, and apifront has no reason to make
    /// them.
    strangers: Vec<Arrived>,
    /// The number of apifront's own requests.
    own: usize,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic while locked")
    }

    pub fn plan(&self, number: u64, planned: Planned) {
        self.lock().planned.insert(number, Arc::new(planned));
    }

    pub fn planned(&self, number: u64) -> Option<Arc<Planned>> {
        self.lock().planned.get(&number).cloned()
    }

    pub fn arrived(&self, number: u64, request: Arrived) {
        let mut inner = self.lock();
        *inner.counts.entry(number).or_default() += 1;
        inner.arrived.entry(number).or_default().push(request);
    }

    pub fn own(&self) {
        self.lock().own += 1;
    }

    pub fn stranger(&self, request: Arrived) {
        self.lock().strangers.push(request);
    }

    /// Returns the arrivals of a request so far, and forgets their content.
    pub fn take(&self, number: u64) -> Vec<Arrived> {
        let mut inner = self.lock();
        inner.planned.remove(&number);
        inner.arrived.remove(&number).unwrap_or_default()
    }

    pub fn count(&self, number: u64) -> usize {
        self.lock().counts.get(&number).copied().unwrap_or(0)
    }

    pub fn strangers(&self) -> Vec<Arrived> {
        self.lock().strangers.clone()
    }

    pub fn own_count(&self) -> usize {
        self.lock().own
    }
}

/// Returns the number in a request.
pub fn number(fields: &[fields::Field]) -> Option<u64> {
    let text = fields::first(fields, NUMBER)?;
    String::from_utf8(text).ok()?.parse().ok()
}
