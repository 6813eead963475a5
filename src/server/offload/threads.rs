//! The threads for work that keeps a core busy.
//!
//! They have a lower priority than the threads that serve connections. When all
//! cores are busy, a request that takes microseconds does not wait until the
//! kernel ends the time slice of work that takes milliseconds.

use std::io;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

/// The niceness of these threads. On a busy core, they get a third of the time of
/// another thread, so they still make progress.
const NICE: i32 = 5;

/// Only the blocking threads of this runtime are used.
static THREADS: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_current_thread()
        .thread_name("offload")
        .on_thread_start(|| {
            // On Linux, each thread has its own priority. If it may not be lowered,
            // the work runs with the usual one.
            let _ = rustix::process::nice(NICE);
        })
        .build()
});

/// Runs the work to its end, even if no caller waits for it any more. Returns `None`
/// if it panics.
pub(in crate::server) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
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
