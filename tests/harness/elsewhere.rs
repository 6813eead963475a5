//! The machine of those who misbehave.
//!
//! In a cluster, callers have processors of their own. Here they share those of
//! the server, and whoever sends without a pause would slow everybody down by
//! that alone. So they run on threads with a lower priority, in a runtime of
//! their own: what is measured beside them is what the server lets them do.
//!
//! Where times are compared (`APIFRONT_TEST_SAMPLES`), nothing runs beside the
//! test. Then they run only while nobody else wants the processor, and whoever
//! is measured has it at once.

use std::process::Command;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use super::volume;

/// As `nice` counts: a tenth of the weight of other threads.
const NICE: i32 = 10;

static MACHINE: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("elsewhere")
        .on_thread_start(|| {
            if volume::compares_times() {
                assert!(schedule("--idle", "0"), "chrt");
            } else {
                // Linux has one priority for each thread. Anybody may lower it.
                rustix::process::nice(NICE).expect("a lower priority");
            }
        })
        .enable_all()
        .build()
        .expect("a runtime")
});

/// Lets this thread begin at once whenever it can, as if it ran on another
/// machine than the server. The server's processes do not inherit it.
pub fn leave() {
    if !schedule("--rr", "1") {
        println!("no right to a higher priority: times contain waits for a processor");
    }
}

/// Changes how Linux schedules this thread. Returns false if that fails.
fn schedule(policy: &str, priority: &str) -> bool {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    Command::new("chrt")
        .args(["--reset-on-fork", policy, "--pid", priority, &thread])
        .status()
        .is_ok_and(|status| status.success())
}

pub fn handle() -> &'static Handle {
    MACHINE.handle()
}

pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    MACHINE.spawn(future)
}
