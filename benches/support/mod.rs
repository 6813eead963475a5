//! Shared code of the benchmarks: processes on fixed cores, their cost, the peers,
//! and tables.
//!
//! Figures are compared only within one run, in rounds that alternate between
//! apifront and the peers. CPU time matters more than wall time: a busy machine
//! slows everything down but hardly changes CPU time.

pub mod bare_h2;
pub mod bare_pingora;
pub mod configmaps;
pub mod cores;
pub mod floor;
pub mod herd;
pub mod lists;
pub mod peers;
pub mod plot;
pub mod pods;
pub mod report;
pub mod servers;
pub mod usage;
pub mod watches;
pub mod wrk;

use std::process::{Command, Stdio};
use std::time::Duration;

/// Fails if a tool is missing, and names the packages to install. Runs before
/// anything starts.
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

/// Returns `--NAME VALUE` of the command line, or `default`.
pub fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|a| a.strip_prefix("--") != Some(name));
    match arguments.nth(1) {
        None => default,
        Some(value) => value
            .parse()
            .unwrap_or_else(|_| panic!("--{name} {value}: not a number")),
    }
}

pub fn count(name: &str, default: u64) -> usize {
    usize::try_from(argument(name, default)).unwrap_or_else(|_| panic!("--{name}: too many"))
}

pub fn seconds(name: &str, default: u64) -> Duration {
    Duration::from_secs(argument(name, default))
}

/// Runs a benchmark on the main thread, whose core servers inherit.
pub fn run(benchmark: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(benchmark);
}
