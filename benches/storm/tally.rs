//! Counts what happens to all clients in a storm.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

/// The label of the service that shows who is current.
pub const MARK: &str = r#""storm":""#;

#[derive(Default)]
pub struct Tally {
    watching: AtomicUsize,
    failed: AtomicUsize,
    refused: AtomicUsize,
    lists: AtomicUsize,
    wanted_mark: AtomicUsize,
    renewed: AtomicBool,
    times: Mutex<Times>,
}

/// When clients had their watches back, and when they had seen the mark.
#[derive(Clone, Default)]
pub struct Times {
    pub back: Vec<Instant>,
    pub current: Vec<Instant>,
}

#[derive(Clone, Copy)]
pub struct Counts {
    pub failed: usize,
    pub refused: usize,
    pub lists: usize,
}

impl Tally {
    pub fn has_watches(&self) {
        self.watching.fetch_add(1, Relaxed);
        self.times.lock().back.push(Instant::now());
    }

    pub fn lost_watches(&self) {
        self.watching.fetch_sub(1, Relaxed);
    }

    pub fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub fn listed(&self) {
        self.lists.fetch_add(1, Relaxed);
    }

    pub fn wanted_mark(&self) -> usize {
        self.wanted_mark.load(Relaxed)
    }

    pub fn is_current(&self) {
        self.times.lock().current.push(Instant::now());
    }

    pub fn watching(&self) -> usize {
        self.watching.load(Relaxed)
    }

    pub fn current(&self) -> usize {
        self.times.lock().current.len()
    }

    /// Gives all clients their other certificates, for the connections that come. A server
    /// that began anew since they had them last does not know them.
    pub fn renew_certificates(&self) {
        self.renewed.fetch_xor(true, Relaxed);
    }

    pub fn has_renewed_certificates(&self) -> bool {
        self.renewed.load(Relaxed)
    }

    /// Begins anew. Clients are current when they have seen this mark.
    pub fn begin(&self, mark: usize) {
        self.failed.store(0, Relaxed);
        self.refused.store(0, Relaxed);
        self.lists.store(0, Relaxed);
        self.wanted_mark.store(mark, Relaxed);
        *self.times.lock() = Times::default();
    }

    pub fn counts(&self) -> Counts {
        Counts {
            failed: self.failed.load(Relaxed),
            refused: self.refused.load(Relaxed),
            lists: self.lists.load(Relaxed),
        }
    }

    pub fn times(&self) -> Times {
        self.times.lock().clone()
    }
}
