//! Work of milliseconds and more: not on a thread that serves others.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

/// How much is done at a time: one thing for each core. Who comes later waits
/// here, and holds no thread; of those that want one list compressed, it then
/// finds most of it done. They are no more than requests in flight may be.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores)
});

/// What has begun is brought to its end, whether or not somebody waits for it.
/// `None` if it panics.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let turn = TURNS.acquire().await.ok()?;
    let work = move || {
        let done = work();
        drop(turn);
        done
    };
    tokio::task::spawn_blocking(work).await.ok()
}
