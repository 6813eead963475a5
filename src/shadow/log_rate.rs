//! Limits the rate of log lines. A caller whose own objects differ could otherwise
//! cause a line with each read.

use std::time::{Duration, Instant};

/// The lines in each [`RATE_PERIOD`]. Usually the first lines name every resource
/// that differs. Metrics and `/debug/shadow` count all differences.
const LINES_PER_PERIOD: u32 = 20;
const RATE_PERIOD: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct LogRate {
    /// The time of the first line of the period.
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogRate {
    /// If another line may be written, returns how many were left out since the last
    /// one.
    pub(super) fn take(&mut self, now: Instant) -> Option<u64> {
        let is_over = |began: Instant| now.saturating_duration_since(began) >= RATE_PERIOD;
        if self.began.is_none_or(is_over) {
            self.began = Some(now);
            self.lines = 0;
        }
        if self.lines >= LINES_PER_PERIOD {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.lines = self.lines.saturating_add(1);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_differences_writes_few_lines_and_their_number() {
        let mut rate = LogRate::default();
        let began = Instant::now();
        let lines: Vec<_> = (0..100_000)
            .filter_map(|n| rate.take(began + Duration::from_millis(n)))
            .collect();
        // 100 seconds are two periods.
        assert_eq!(lines.len(), 2 * LINES_PER_PERIOD as usize);
        let told: Vec<_> = lines.iter().filter(|left_out| **left_out > 0).collect();
        assert_eq!(told, [&(60_000 - u64::from(LINES_PER_PERIOD))]);
        assert_eq!(
            rate.take(began + Duration::from_secs(200)),
            Some(40_000 - u64::from(LINES_PER_PERIOD))
        );
        assert_eq!(rate.take(began + Duration::from_secs(200)), Some(0));
    }
}
