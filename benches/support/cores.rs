//! Pins processes and threads to cores.

use std::process::{Command, Stdio};

use rustix::thread::Pid;

pub const SERVER: usize = 0;
/// The core of the clients, and of processes that must not slow the server down.
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
    taskset(&["--all-tasks"], &pid.to_string(), &core.to_string());
}

/// Lets a process run on both cores again.
pub fn unpin(pid: u32) {
    taskset(
        &["--all-tasks"],
        &pid.to_string(),
        &format!("{SERVER},{CLIENT}"),
    );
}

pub fn pin_thread(thread: Pid, core: usize) {
    taskset(&[], &thread.to_string(), &core.to_string());
}

fn taskset(options: &[&str], id: &str, cores: &str) {
    let status = Command::new("taskset")
        .args(options)
        .args(["--cpu-list", "--pid", cores, id])
        .stdout(Stdio::null())
        .status()
        .expect("taskset");
    assert!(status.success(), "taskset: no cores {cores}?");
}
