//! The seats of a request that executes.

use std::time::Duration;

/// The seats of a request. Dropping it ends the request: its seats are given
/// back, after its additional latency if it has one.
#[derive(Debug)]
pub struct Seats {
    waited: Duration,
}

impl Seats {
    pub(crate) fn new(waited: Duration) -> Self {
        Self { waited }
    }

    /// Returns the time that the request waited for its seats.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}
