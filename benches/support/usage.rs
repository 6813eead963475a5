//! The resources that a process uses, as Linux counts them.

use std::time::Duration;

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// Returns the CPU time, user and system, of all threads of a process,
/// including threads that have ended.
pub fn cpu_time(pid: u32) -> Duration {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid"));
    let clock = clock_getcpuclockid(pid).expect("the process lives");
    clock.now().expect("a clock").into()
}

/// Returns the resident memory in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// Returns the most memory that was ever resident, in bytes.
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
