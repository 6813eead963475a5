//! The counts of a set of queues, for metrics and dumps. The set's lock guards
//! them, which costs a request less than atomic numbers would.

use std::time::Duration;

use crate::clock::Time;
use crate::histogram::{Histogram, TimingRatio};
use crate::rejected::Rejected;
use crate::seat_seconds::SeatSeconds;

/// kube-apiserver's buckets.
const SECONDS: &[f64; 13] = &[
    0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
];
const QUEUE_LENGTHS: &[f64; 8] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const SEATS: &[f64; 8] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];
const SEAT_UTILIZATION: &[f64; 13] = &[
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0,
];
const REQUEST_UTILIZATION: &[f64; 10] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const DEMAND: &[f64; 12] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

/// The counts for one schema's requests in the level.
#[derive(Clone, Debug)]
pub(crate) struct SchemaStatistics {
    pub name: String,
    /// Whether the configuration leads requests of this schema here.
    pub configured: bool,
    pub rejected: [u64; Rejected::ALL.len()],
    pub dispatched: u64,
    pub no_accommodation: u64,
    pub waiting_requests: usize,
    pub waiting_seats: usize,
    pub executing_requests: usize,
    /// The seats of requests that execute or are in their additional latency.
    pub executing_seats: usize,
    pub queue_length: Histogram,
    pub estimated_seats: Histogram,
    pub waited: Histogram,
    /// The waiting times of requests that were refused at once: all zero.
    pub waited_for_nothing: Histogram,
    pub executed: Histogram,
    pub executed_watch: Histogram,
}

impl SchemaStatistics {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            configured: false,
            rejected: [0; Rejected::ALL.len()],
            dispatched: 0,
            no_accommodation: 0,
            waiting_requests: 0,
            waiting_seats: 0,
            executing_requests: 0,
            executing_seats: 0,
            queue_length: Histogram::new(QUEUE_LENGTHS),
            estimated_seats: Histogram::new(SEATS),
            waited: Histogram::new(SECONDS),
            waited_for_nothing: Histogram::new(SECONDS),
            executed: Histogram::new(SECONDS),
            executed_watch: Histogram::new(SECONDS),
        }
    }

    pub(super) fn reject(&mut self, reason: Rejected) {
        if let Some(count) = self.rejected.get_mut(reason as usize) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn execute(&mut self, is_watch: bool, time: Duration) {
        match is_watch {
            true => self.executed_watch.observe_time(time),
            false => self.executed.observe_time(time),
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting_requests == 0 && self.executing_requests == 0 && self.executing_seats == 0
    }
}

/// The schemas of a level. A schema keeps its place while it is configured or has
/// requests.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    places: Vec<Option<SchemaStatistics>>,
}

impl Schemas {
    /// Returns the place of a schema, and gives it one if it has none. `guess` is
    /// its last known place.
    pub(super) fn place(&mut self, name: &str, guess: usize) -> usize {
        let is_there = |place: &Option<SchemaStatistics>| {
            place.as_ref().is_some_and(|schema| schema.name == name)
        };
        if self.places.get(guess).is_some_and(is_there) {
            return guess;
        }
        if let Some(at) = self.places.iter().position(is_there) {
            return at;
        }
        let new = Some(SchemaStatistics::new(name));
        if let Some(at) = self.places.iter().position(Option::is_none) {
            if let Some(place) = self.places.get_mut(at) {
                *place = new;
            }
            return at;
        }
        self.places.push(new);
        self.places.len().saturating_sub(1)
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut SchemaStatistics> {
        self.places.get_mut(place)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SchemaStatistics> {
        self.places.iter().flatten()
    }

    /// Notes which schemas lead here, and forgets the others once they have no
    /// requests.
    pub(super) fn configure(&mut self, names: &[&str]) {
        for schema in self.places.iter_mut().flatten() {
            schema.configured = names.contains(&schema.name.as_str());
        }
        for name in names {
            let place = self.place(name, usize::MAX);
            if let Some(schema) = self.get_mut(place) {
                schema.configured = true;
            }
        }
        for place in 0..self.places.len() {
            self.forget_if_gone(place);
        }
    }

    pub(super) fn forget_if_gone(&mut self, place: usize) {
        if let Some(place) = self.places.get_mut(place)
            && place.as_ref().is_some_and(|s| !s.configured && s.is_idle())
        {
            *place = None;
        }
    }
}

/// Readings of the progress meter at the latest dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DispatchReadings {
    pub now: SeatSeconds,
    pub latest: SeatSeconds,
    /// The lowest and the highest progress meter value at which a queue dispatches
    /// next.
    pub next: (SeatSeconds, SeatSeconds),
    /// The same, minus the estimated work in progress.
    pub next_discounted: (SeatSeconds, SeatSeconds),
}

#[derive(Debug)]
pub(crate) struct Statistics {
    pub schemas: Schemas,
    pub dispatched: u64,
    pub rejected: u64,
    pub cancelled: u64,
    /// The number of times that the progress meter was wound back: with all values
    /// high enough for it, and with one that was too low.
    pub epochs: (u64, u64),
    pub dispatch: Option<DispatchReadings>,
    pub seats: TimingRatio,
    pub executing: TimingRatio,
    pub waiting: TimingRatio,
    pub demand: TimingRatio,
}

impl Statistics {
    pub(super) fn new(now: Time) -> Self {
        Self {
            schemas: Schemas::default(),
            dispatched: 0,
            rejected: 0,
            cancelled: 0,
            epochs: (0, 0),
            dispatch: None,
            seats: TimingRatio::new(SEAT_UTILIZATION, now),
            executing: TimingRatio::new(REQUEST_UTILIZATION, now),
            waiting: TimingRatio::new(REQUEST_UTILIZATION, now),
            demand: TimingRatio::new(DEMAND, now),
        }
    }

    pub(super) fn note_epoch(&mut self, success: bool) {
        let count = match success {
            true => &mut self.epochs.0,
            false => &mut self.epochs.1,
        };
        *count = count.saturating_add(1);
    }
}
