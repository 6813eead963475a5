//! The threads for work that keeps a core busy.
//!
//! They have a lower priority than the threads that serve connections. When all
//! cores are busy, a request that takes microseconds does not wait until the
//! kernel ends the time slice of work that takes milliseconds.

use std::io;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

/// As `nice` counts: these threads get a third of what another thread gets on a
/// busy core, so that they go on.
const NICE: i32 = 5;

/// Only its threads for blocking work are used.
static THREADS: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_current_thread()
        .thread_name("offload")
        .on_thread_start(|| {
            // Linux has one priority for each thread. Where lowering it is
            // forbidden, the work is done as before.
            let _ = rustix::process::nice(NICE);
        })
        .build()
});

/// Runs the work to its end, even if no caller waits for it any more. Returns
/// `None` if it panics.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match &*THREADS {
        Ok(threads) => threads.spawn_blocking(work).await.ok(),
        Err(_) => spawn_blocking(work).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_threads_have_a_lower_priority() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let here = priority();
        let there = run(priority).await.unwrap();
        assert_eq!(there, (here + NICE).min(19));
        assert_eq!(priority(), here);
        assert_eq!(run(|| -> u8 { panic!("as tested") }).await, None);
    }
}
