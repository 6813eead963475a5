//! The average, the deviation and the highest value of a number over time.

use crate::clock::Time;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Integrator {
    last: Time,
    value: f64,
    seconds: f64,
    /// The integrals of the value and of its square.
    integral: f64,
    of_square: f64,
    highest: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moments {
    pub seconds: f64,
    pub average: f64,
    /// The standard deviation. It is NaN if rounding makes the variance negative.
    pub deviation: f64,
    pub highest: f64,
}

impl Integrator {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            last: now,
            ..Self::default()
        }
    }

    pub(crate) fn set(&mut self, now: Time, value: f64) {
        self.advance(now);
        self.value = value;
        self.highest = self.highest.max(value);
    }

    /// Returns the moments since the last reset, and begins anew.
    pub(crate) fn reset(&mut self, now: Time) -> Moments {
        self.advance(now);
        let average = self.integral / self.seconds;
        let variance = self.of_square / self.seconds - average * average;
        let moments = Moments {
            seconds: self.seconds,
            average,
            deviation: variance.sqrt(),
            highest: self.highest,
        };
        *self = Self {
            last: self.last,
            value: self.value,
            highest: self.value,
            ..Self::default()
        };
        moments
    }

    fn advance(&mut self, now: Time) {
        let seconds = now.since(self.last).as_secs_f64();
        self.last = self.last.max(now);
        self.seconds += seconds;
        self.integral += self.value * seconds;
        self.of_square += self.value * self.value * seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_steps() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let mut integrator = Integrator::new(at(0));
        integrator.set(at(0), 3.0);
        integrator.set(at(2), 9.0);
        integrator.set(at(3), 0.0);
        let seen = integrator.reset(at(6));
        assert_eq!((seen.seconds, seen.average, seen.highest), (6.0, 2.5, 9.0));
        // The mean of the squares is (2·9 + 81) / 6 = 16.5.
        assert_eq!(seen.deviation, (16.5_f64 - 6.25).sqrt());
        integrator.set(at(7), 4.0);
        let seen = integrator.reset(at(7));
        assert_eq!((seen.average, seen.highest), (0.0, 4.0));
        let empty = integrator.reset(at(7));
        assert!(empty.average.is_nan() && empty.deviation.is_nan());
    }
}
