//! Chooses the core on which a process runs.

use std::process::{Command, Stdio};

/// The core of the measured server.
pub const SERVER: usize = 0;
/// The core of the clients, and of processes that must not slow the server
/// down.
pub const CLIENT: usize = 1;

/// Runs `start`. The processes that it starts stay on `core`.
pub fn on<T>(core: usize, start: impl FnOnce() -> T) -> T {
    pin(std::process::id(), core);
    let started = start();
    pin(std::process::id(), CLIENT);
    started
}

/// Moves a process with all its threads to `core`.
pub fn pin(pid: u32, core: usize) {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid"])
        .args([core.to_string(), pid.to_string()])
        .stdout(Stdio::null())
        .status()
        .expect("taskset");
    assert!(status.success(), "taskset: no core {core}?");
}
