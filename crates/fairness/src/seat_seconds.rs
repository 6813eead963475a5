//! Work, as seats times time. A request's place in virtual time is measured in it
//! (k8s.io/apiserver `util/flowcontrol/request`, and the comment of
//! `fairqueuing/queueset`).

use std::fmt;
use std::time::Duration;

/// Hundred-millionths of a seat-second. One unit is one seat for ten nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeatSeconds(pub u64);

const PER_SEAT_SECOND: u64 = 100_000_000;
const NANOS_PER_UNIT: u64 = 10;

impl SeatSeconds {
    pub(crate) const MAX: Self = Self(u64::MAX);

    pub(crate) fn from_seats(seats: f64, duration: Duration) -> Self {
        // A cast of a float saturates.
        let units = seats * nanos(duration) / NANOS_PER_UNIT as f64;
        let whole = units as u64;
        // Rounds to the nearest number. `f64::round` is a function call on x86-64.
        let up = units - whole as f64 >= 0.5;
        Self(whole.saturating_add(u64::from(up)))
    }

    /// Computes the work of a whole number of seats, without a division of floats.
    pub(crate) fn from_whole_seats(seats: usize, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).ok();
        let work = nanos.and_then(|nanos| nanos.checked_mul(seats as u64));
        match work.and_then(|work| work.checked_add(NANOS_PER_UNIT / 2)) {
            Some(work) => Self(work / NANOS_PER_UNIT),
            None => Self::from_seats(seats as f64, duration),
        }
    }

    pub(crate) fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    pub(crate) fn minus(self, less: Self) -> Self {
        Self(self.0.saturating_sub(less.0))
    }

    pub(crate) fn as_f64(self) -> f64 {
        self.0 as f64 / PER_SEAT_SECOND as f64
    }

    /// Returns how long this many seats take for the work.
    pub(crate) fn duration_per_seat(self, seats: usize) -> Duration {
        let nanos = self.0 as f64 / (seats.max(1) as f64) * NANOS_PER_UNIT as f64;
        Duration::from_nanos(nanos as u64)
    }
}

/// Returns the nanoseconds of a duration. Durations of 584 years and more are cut.
fn nanos(duration: Duration) -> f64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) as f64
}

impl fmt::Display for SeatSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0 / PER_SEAT_SECOND;
        let rest = self.0 % PER_SEAT_SECOND;
        write!(f, "{whole}.{rest:08}ss")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures are those of kube-apiserver's own conversions.
    #[test]
    fn conversions() {
        let ms = Duration::from_millis;
        assert_eq!(SeatSeconds::from_seats(1.0, ms(3)).0, 300_000);
        assert_eq!(SeatSeconds::from_seats(2.5, Duration::from_nanos(7)).0, 2);
        assert_eq!(
            SeatSeconds::from_seats(10.0, ms(25)).to_string(),
            "0.25000000ss"
        );
        assert_eq!(SeatSeconds(12_345_678_901).to_string(), "123.45678901ss");
        assert_eq!(
            SeatSeconds::from_seats(10.0, ms(5))
                .duration_per_seat(4)
                .as_micros(),
            12_500
        );
        assert_eq!(SeatSeconds::from_seats(f64::MAX, ms(5)), SeatSeconds::MAX);
        assert_eq!(SeatSeconds(150_000_000).as_f64(), 1.5);
        for seats in [0, 1, 3, 100, 1 << 40] {
            for nanos in [0, 1, 4, 5, 15, 3_000_000, u64::MAX / 7] {
                let time = Duration::from_nanos(nanos);
                let [whole, float] = [
                    SeatSeconds::from_whole_seats(seats, time),
                    SeatSeconds::from_seats(seats as f64, time),
                ];
                // A float has a precision of 53 bits.
                let differ = whole.0.abs_diff(float.0);
                assert!(
                    differ <= whole.0 >> 52,
                    "{seats} {nanos}: {whole:?} {float:?}"
                );
            }
        }
    }
}
