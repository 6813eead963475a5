//! What a process costs, as Linux counts it.

use std::time::Duration;

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// CPU time, user and system, that a process has used with all its threads,
/// those that have ended included.
pub fn cpu_time(pid: u32) -> Duration {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid"));
    let clock = clock_getcpuclockid(pid).expect("the process lives");
    clock.now().expect("a clock").into()
}

/// Resident memory.
pub fn resident_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// The most that was ever resident.
pub fn peak_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let kilobytes = status
        .lines()
        .find_map(|l| l.strip_prefix(field))
        .and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.expect(field) * 1024
}
