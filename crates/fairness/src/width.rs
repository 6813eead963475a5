//! The seats of a request, as one value. Whoever calls this crate estimates them.

use std::time::Duration;

/// The seats of a request, as estimated from its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// The seats while the request executes.
    pub initial_seats: u64,
    /// The seats during the additional latency.
    pub final_seats: u64,
    /// How long seats stay taken after the request has been answered. The caller
    /// does not wait for it.
    pub additional_latency: Duration,
}

impl Width {
    /// Returns a width of `seats` seats without additional latency.
    pub const fn from_seats(seats: u64) -> Self {
        Self {
            initial_seats: seats,
            final_seats: 0,
            additional_latency: Duration::ZERO,
        }
    }

    pub(crate) fn initial_seats(&self) -> usize {
        usize::try_from(self.initial_seats).unwrap_or(usize::MAX)
    }

    pub(crate) fn final_seats(&self) -> usize {
        usize::try_from(self.final_seats).unwrap_or(usize::MAX)
    }

    /// Returns the most seats that the request takes at one moment. This many are
    /// taken from its beginning to the end of the additional latency.
    pub fn max_seats(&self) -> usize {
        self.initial_seats().max(self.final_seats())
    }
}
