//! Runs misbehaving clients as if they had a machine of their own.
//!
//! In a cluster, callers have their own processors. Here they share the server's,
//! and a client that sends without a pause would slow everybody down by that alone.
//! Misbehaving clients therefore run on threads of lower priority, in their own
//! runtime. Measurements beside them show only what the server lets them do.
//!
//! Where times are compared (`APIFRONT_TEST_SAMPLES`), nothing runs beside the test.
//! These threads then run only while nobody else wants the processor, and the
//! measured clients get it at once.

use std::process::Command;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use super::volume;

/// The nice value: a tenth of the weight of other threads.
const NICE: i32 = 10;

static MACHINE: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("elsewhere")
        .on_thread_start(|| {
            if volume::compares_times() {
                assert!(schedule("--idle", "0"), "chrt");
            } else {
                // Linux has a priority for each thread. Every user may lower it.
                rustix::process::nice(NICE).expect("a lower priority");
            }
        })
        .enable_all()
        .build()
        .expect("a runtime")
});

/// Lets this thread begin at once whenever it can, as if it did not share the
/// server's machine. The server's processes do not inherit this.
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
