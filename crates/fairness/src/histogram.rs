//! Histograms of observations, and of a ratio over time. A level's lock guards
//! them.

use std::time::Duration;

use crate::clock::Time;

const MOST_BOUNDS: usize = 13;

/// Counts by upper bounds. One more count, after that of the last bound, is for
/// values above all bounds.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    sum: f64,
    counts: [u64; MOST_BOUNDS + 1],
    bounds: &'static [f64],
}

impl Histogram {
    pub(crate) fn new<const N: usize>(bounds: &'static [f64; N]) -> Self {
        const { assert!(N <= MOST_BOUNDS) };
        Self {
            sum: 0.0,
            counts: [0; MOST_BOUNDS + 1],
            bounds,
        }
    }

    pub(crate) fn observe(&mut self, value: f64) {
        self.weigh(value, 1);
    }

    pub(crate) fn observe_time(&mut self, time: Duration) {
        self.weigh(time.as_secs_f64(), 1);
    }

    fn weigh(&mut self, value: f64, weight: u64) {
        let at = self
            .bounds
            .iter()
            .take_while(|bound| value > **bound)
            .count();
        if let Some(count) = self.counts.get_mut(at) {
            *count = count.saturating_add(weight);
        }
        self.sum += value * weight as f64;
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    /// Returns each upper bound with the number of values up to it.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let mut sum = 0_u64;
        self.bounds
            .iter()
            .zip(&self.counts)
            .map(move |(bound, count)| {
                sum = sum.saturating_add(*count);
                (*bound, sum)
            })
    }
}

/// Numerators below this one have their times summed up until the histogram is
/// read.
const SUMMED_NUMERATORS: usize = 16;

/// A histogram of a ratio over time, in which each nanosecond is an observation
/// (component-base `metrics/prometheusextension`).
#[derive(Clone, Debug)]
pub(crate) struct TimingRatio {
    histogram: Histogram,
    last: Time,
    numerator: usize,
    denominator: usize,
    /// The nanoseconds of each numerator below `SUMMED_NUMERATORS` that are not in
    /// the histogram yet. For a request, an addition here costs less than a division.
    nanos: [u64; SUMMED_NUMERATORS],
}

impl TimingRatio {
    pub(crate) fn new<const N: usize>(bounds: &'static [f64; N], now: Time) -> Self {
        Self {
            histogram: Histogram::new(bounds),
            last: now,
            numerator: 0,
            denominator: 1,
            nanos: [0; SUMMED_NUMERATORS],
        }
    }

    pub(crate) fn set(&mut self, now: Time, numerator: usize) {
        self.advance(now);
        self.numerator = numerator;
    }

    pub(crate) fn set_denominator(&mut self, now: Time, denominator: usize) {
        self.advance(now);
        self.sum_up();
        self.denominator = denominator.max(1);
    }

    pub(crate) fn read(&mut self, now: Time) -> Histogram {
        self.advance(now);
        self.sum_up();
        self.histogram.clone()
    }

    fn advance(&mut self, now: Time) {
        let nanos = now.0.saturating_sub(self.last.0);
        self.last = self.last.max(now);
        match self.nanos.get_mut(self.numerator) {
            Some(sum) => *sum = sum.saturating_add(nanos),
            None => self.weigh(self.numerator, nanos),
        }
    }

    fn sum_up(&mut self) {
        let lowest = std::mem::take(&mut self.nanos);
        for (numerator, nanos) in lowest.into_iter().enumerate() {
            self.weigh(numerator, nanos);
        }
    }

    fn weigh(&mut self, numerator: usize, nanos: u64) {
        let ratio = numerator as f64 / self.denominator as f64;
        self.histogram.weigh(ratio, nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_counts_below_it() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 2.0, 2.5] {
            histogram.observe(value);
        }
        let counts: Vec<(f64, u64)> = histogram.cumulative().collect();
        assert_eq!(counts, [(1.0, 2), (2.0, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 7.5));
    }

    #[test]
    fn each_nanosecond_is_an_observation() {
        let mut ratio = TimingRatio::new(&[0.0, 0.5, 1.0], Time(100));
        ratio.set_denominator(Time(100), 4);
        ratio.set(Time(110), 2);
        ratio.set(Time(140), 8);
        let seen = ratio.read(Time(145));
        let counts: Vec<(f64, u64)> = seen.cumulative().collect();
        assert_eq!(counts, [(0.0, 10), (0.5, 40), (1.0, 40)]);
        assert_eq!((seen.count(), seen.sum()), (45, 30.0 * 0.5 + 5.0 * 2.0));
        // Past time counts with the denominator of that time.
        ratio.set(Time(150), 1000);
        ratio.set_denominator(Time(151), 1000);
        let seen = ratio.read(Time(154));
        let counts: Vec<(f64, u64)> = seen.cumulative().collect();
        assert_eq!(counts, [(0.0, 10), (0.5, 40), (1.0, 43)]);
        assert_eq!(seen.sum(), 15.0 + 10.0 * 2.0 + 250.0 + 3.0);
    }
}
