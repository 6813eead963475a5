//! The part of a set of queues that metrics read.

use super::QueueSet;
use super::statistics::{DispatchReadings, SchemaStatistics};
use crate::clock::Time;
use crate::histogram::Histogram;
use crate::seat_seconds::SeatSeconds;

pub(crate) struct Reading {
    pub schemas: Vec<SchemaStatistics>,
    pub epochs: (u64, u64),
    /// The progress meter.
    pub r: SeatSeconds,
    pub dispatch: Option<DispatchReadings>,
    pub seats: Histogram,
    pub executing: Histogram,
    pub waiting: Histogram,
    pub demand: Histogram,
}

impl QueueSet {
    pub(crate) fn read_metrics(&mut self, now: Time) -> Reading {
        self.advance(now);
        let statistics = &mut self.statistics;
        Reading {
            schemas: statistics.schemas.iter().cloned().collect(),
            epochs: statistics.epochs,
            r: self.r,
            dispatch: statistics.dispatch,
            seats: statistics.seats.read(now),
            executing: statistics.executing.read(now),
            waiting: statistics.waiting.read(now),
            demand: statistics.demand.read(now),
        }
    }
}
