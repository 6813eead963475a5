//! The machine of those who misbehave.
//!
//! In a cluster, callers have processors of their own. Here they share those of
//! the server, and whoever sends without a pause would slow everybody down by
//! that alone. So they run on threads with a lower priority, in a runtime of
//! their own: what is measured beside them is what the server lets them do.

use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// As `nice` counts: a tenth of the weight of other threads.
const NICE: i32 = 10;

static MACHINE: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("elsewhere")
        .on_thread_start(|| {
            // Linux has one priority for each thread. Anybody may lower it.
            rustix::process::nice(NICE).expect("a lower priority");
        })
        .enable_all()
        .build()
        .expect("a runtime")
});

pub fn handle() -> &'static Handle {
    MACHINE.handle()
}

pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    MACHINE.spawn(future)
}
