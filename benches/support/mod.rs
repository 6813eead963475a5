//! What the benchmarks share: processes on known cores, what they cost, the
//! peers, and tables.
//!
//! Compared is within one run alone, in rounds that alternate between ours and
//! the peers, and CPU time comes before wall time: a busy machine slows all
//! down but changes their CPU time little.

// Included by several targets, each of which uses a part of it.
#![allow(dead_code)]

pub mod configmaps;
pub mod cores;
pub mod herd;
pub mod lists;
pub mod peers;
pub mod pods;
pub mod report;
pub mod servers;
pub mod usage;
pub mod watches;
pub mod wrk;

use std::process::{Command, Stdio};
use std::time::Duration;

/// Fails with what to install, before anything is started.
pub fn require(tools: &[(&str, &str)]) {
    let missing: Vec<&str> = tools
        .iter()
        .filter(|(tool, _)| {
            let found = Command::new("sh")
                .args(["-c", &format!("command -v {tool}")])
                .stdout(Stdio::null())
                .status();
            !found.is_ok_and(|status| status.success())
        })
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        eprintln!(
            "this benchmark needs programs that are not installed; on Debian:\n  \
             apt-get install --no-install-recommends {}",
            missing.join(" ")
        );
        std::process::exit(2);
    }
}

/// `--NAME VALUE` of the command line, else `default`. cargo adds a `--bench`.
pub fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|a| a.strip_prefix("--") != Some(name));
    match arguments.nth(1) {
        None => default,
        Some(value) => value
            .parse()
            .unwrap_or_else(|_| panic!("--{name} {value}: not a number")),
    }
}

/// `--NAME VALUE` as a number of things.
pub fn count(name: &str, default: u64) -> usize {
    usize::try_from(argument(name, default)).unwrap_or_else(|_| panic!("--{name}: too many"))
}

/// `--NAME VALUE` as seconds.
pub fn seconds(name: &str, default: u64) -> Duration {
    Duration::from_secs(argument(name, default))
}

/// All of a benchmark runs on the main thread, whose core servers inherit.
pub fn run(benchmark: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(benchmark);
}
