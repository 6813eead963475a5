//! What a process costs, as Linux counts it.

use std::time::Duration;

/// Clock ticks per second in /proc: `USER_HZ`, the same on every platform.
const TICKS: u64 = 100;

/// CPU time, user and system, that a process has used.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = read(pid, "stat");
    // The second field is a name, in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let ticks: u64 = fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(|f| f.parse::<u64>().expect("a number"))
        .sum();
    Duration::from_micros(ticks * (1_000_000 / TICKS))
}

/// Resident memory.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = read(pid, "status");
    let kilobytes = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.expect("VmRSS") * 1024
}

fn read(pid: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the process lives")
}
