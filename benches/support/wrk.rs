//! Runs one round of load with wrk, and measures the server's CPU time.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{cores, usage};

/// A script that prints exact figures in microseconds. wrk's own summary rounds
/// them.
const REPORT: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("\nresult %d %d %d %d %d\n", summary.duration, summary.requests,
    latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"#;

pub struct Wrk {
    script: PathBuf,
    duration: Duration,
    path: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub rate: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// The server's CPU time per request.
    pub cpu_us: f64,
}

impl Wrk {
    pub fn new(folder: &Path, duration: Duration, path: &'static str) -> Self {
        let script = folder.join("report.lua");
        std::fs::write(&script, REPORT).expect("report.lua");
        Self {
            script,
            duration,
            path,
        }
    }

    /// Runs one round. Fails on any answer other than 2xx and 3xx, and on a broken
    /// connection.
    pub fn round(&self, server: SocketAddr, pid: u32, connections: usize) -> Round {
        let before = usage::cpu_time(pid);
        let output = Command::new("taskset")
            .args(["--cpu-list", &cores::CLIENT.to_string(), "wrk"])
            .args(["--threads", "1", "--connections", &connections.to_string()])
            .args(["--duration", &format!("{}s", self.duration.as_secs())])
            .arg("--script")
            .arg(&self.script)
            .arg(format!("http://{server}{}", self.path))
            .output()
            .expect("wrk");
        let cpu = usage::cpu_time(pid) - before;
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text
            .lines()
            .find_map(|line| line.strip_prefix("result "))
            .unwrap_or_else(|| panic!("wrk said\n{text}"))
            .split(' ')
            .map(|n| n.parse().expect("a number"))
            .collect();
        let [duration_us, requests, p50_us, p99_us, errors] = numbers[..] else {
            panic!("wrk said\n{text}");
        };
        assert!(requests > 0.0 && errors == 0.0, "wrk said\n{text}");
        Round {
            rate: requests * 1e6 / duration_us,
            p50_us,
            p99_us,
            cpu_us: cpu.as_secs_f64() * 1e6 / requests,
        }
    }
}
