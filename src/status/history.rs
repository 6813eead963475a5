//! The last hour in samples of half a minute.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub const SAMPLE_EVERY: Duration = Duration::from_secs(30);

/// The samples of an hour. Older ones are dropped.
const MAX_SAMPLES: usize = 120;

/// An unfinished sample is shown from this age on. Over a shorter time, the rates
/// would jump.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// The figures of one moment. Counters only grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    pub at: Instant,
    pub requests: u64,
    pub hits: u64,
    pub bypasses: u64,
    pub upstream_requests: u64,
    pub cpu: Duration,
    pub watchers: u64,
    pub cache_bytes: u64,
    pub resident_bytes: u64,
}

/// The figures of the time between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The end of the sample.
    pub at: Instant,
    pub lasted: Duration,
    pub requests_per_second: f64,
    /// The share of reads that the cache answered. `None` without reads.
    pub hit_rate: Option<f64>,
    pub upstream_requests_per_second: f64,
    /// The average number of busy cores.
    pub busy_cores: f64,
    pub watchers: u64,
    pub cache_bytes: u64,
    pub resident_bytes: u64,
}

impl Sample {
    fn between(before: &Reading, now: &Reading) -> Self {
        let lasted = now.at.saturating_duration_since(before.at);
        let grown = |counter: fn(&Reading) -> u64| counter(now).saturating_sub(counter(before));
        let rate = |n: f64| match lasted.is_zero() {
            true => 0.0,
            false => n / lasted.as_secs_f64(),
        };
        let (hits, bypasses) = (grown(|r| r.hits), grown(|r| r.bypasses));
        let reads = hits.saturating_add(bypasses);
        Self {
            at: now.at,
            lasted,
            requests_per_second: rate(grown(|r| r.requests) as f64),
            hit_rate: (reads > 0).then(|| hits as f64 / reads as f64),
            upstream_requests_per_second: rate(grown(|r| r.upstream_requests) as f64),
            busy_cores: rate(now.cpu.saturating_sub(before.cpu).as_secs_f64()),
            watchers: now.watchers,
            cache_bytes: now.cache_bytes,
            resident_bytes: now.resident_bytes,
        }
    }
}

#[derive(Default)]
pub struct History(Mutex<State>);

#[derive(Default)]
struct State {
    samples: VecDeque<Sample>,
    last: Option<Reading>,
}

impl History {
    /// Ends a sample with this reading. The first reading only begins one.
    pub fn take(&self, now: Reading) {
        let mut state = self.0.lock();
        if let Some(before) = state.last.replace(now) {
            if state.samples.len() >= MAX_SAMPLES {
                state.samples.pop_front();
            }
            state.samples.push_back(Sample::between(&before, &now));
        }
    }

    /// Returns the samples, the oldest first. The last one is unfinished.
    pub fn samples(&self, now: &Reading) -> Vec<Sample> {
        let state = self.0.lock();
        let under_way = state.last.as_ref().map(|last| Sample::between(last, now));
        let under_way = under_way.filter(|sample| sample.lasted >= SHOWN_AFTER);
        state.samples.iter().copied().chain(under_way).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: Instant, n: u64) -> Reading {
        Reading {
            at,
            requests: 10 * n,
            hits: 6 * n,
            bypasses: 2 * n,
            upstream_requests: n,
            cpu: Duration::from_millis(500 * n),
            watchers: n,
            cache_bytes: 1_000,
            resident_bytes: 2_000,
        }
    }

    #[test]
    fn samples_are_rates_between_readings() {
        let start = Instant::now();
        let history = History::default();
        history.take(reading(start, 0));
        assert_eq!(history.samples(&reading(start, 0)), []);
        let later = start + Duration::from_secs(5);
        let samples = history.samples(&reading(later, 10));
        let expected = Sample {
            at: later,
            lasted: Duration::from_secs(5),
            requests_per_second: 20.0,
            hit_rate: Some(0.75),
            upstream_requests_per_second: 2.0,
            busy_cores: 1.0,
            watchers: 10,
            cache_bytes: 1_000,
            resident_bytes: 2_000,
        };
        assert_eq!(samples, [expected]);
        history.take(reading(later, 10));
        // The unfinished sample is too young.
        assert_eq!(history.samples(&reading(later, 10)), [expected]);
        let end = later + Duration::from_secs(30);
        let quiet = history.samples(&reading(end, 10))[1];
        assert_eq!((quiet.requests_per_second, quiet.hit_rate), (0.0, None));
    }

    #[test]
    fn an_hour_is_kept() {
        let history = History::default();
        let start = Instant::now();
        let at = |n: u64| start + SAMPLE_EVERY * u32::try_from(n).unwrap();
        for n in 0..1_000 {
            history.take(reading(at(n), n));
        }
        let samples = history.samples(&reading(at(999), 999));
        assert_eq!(samples.len(), MAX_SAMPLES);
        assert_eq!(SAMPLE_EVERY * 120, Duration::from_secs(3_600));
        assert_eq!(samples[0].at, at(880));
        assert_eq!(samples[MAX_SAMPLES - 1].at, at(999));
    }
}
