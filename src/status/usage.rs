//! The memory and the CPU time that the process uses.

use std::time::Duration;

#[cfg(target_os = "linux")]
use prometheus::core::Collector;
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use rustix::time::{ClockId, clock_gettime};

#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time of all threads.
    pub cpu: Duration,
    pub resident_bytes: u64,
}

/// Reads the process's usage from the source of the metrics `process_*`.
pub struct UsageReader {
    #[cfg(target_os = "linux")]
    process: ProcessCollector,
}

impl Default for UsageReader {
    fn default() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            process: ProcessCollector::for_self(),
        }
    }
}

impl UsageReader {
    pub fn read(&self) -> Usage {
        Usage {
            cpu: cpu(),
            resident_bytes: self.resident_bytes(),
        }
    }

    #[cfg(target_os = "linux")]
    fn resident_bytes(&self) -> u64 {
        let families = self.process.collect();
        let found = families
            .iter()
            .find(|family| family.name() == "process_resident_memory_bytes");
        let metric = found.and_then(|family| family.get_metric().first());
        // A size in bytes is never negative, and far below 2^53.
        metric.map_or(0, |metric| metric.get_gauge().get_value() as u64)
    }

    #[cfg(not(target_os = "linux"))]
    fn resident_bytes(&self) -> u64 {
        0
    }
}

/// Returns the CPU time. The collector has it only in whole seconds, which is too
/// coarse for samples.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_uses_something() {
        let reader = UsageReader::default();
        let before = reader.read();
        let work: u64 = (0..5_000_000u64).map(std::hint::black_box).sum();
        assert!(work > 0);
        let after = reader.read();
        assert!(after.cpu > before.cpu && after.cpu < Duration::from_secs(3_600));
        assert!(after.resident_bytes > 1 << 20, "{after:?}");
    }
}
