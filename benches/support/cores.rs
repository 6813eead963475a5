//! Which core a process runs on.

use std::process::{Command, Stdio};

/// Of the server that is measured.
pub const SERVER: usize = 0;
/// Of the clients, and of what they must not be slowed by.
pub const CLIENT: usize = 1;

/// Runs `start`; the processes it starts stay on `core`.
pub fn on<T>(core: usize, start: impl FnOnce() -> T) -> T {
    pin(std::process::id(), core);
    let started = start();
    pin(std::process::id(), CLIENT);
    started
}

/// Moves a process with all its threads.
pub fn pin(pid: u32, core: usize) {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid"])
        .args([core.to_string(), pid.to_string()])
        .stdout(Stdio::null())
        .status()
        .expect("taskset");
    assert!(status.success(), "taskset: no core {core}?");
}
