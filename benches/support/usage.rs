//! The resources that a process uses, as Linux counts them.

pub use harness::process::cpu_time;

pub fn resident_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// Returns the peak resident memory in bytes.
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
