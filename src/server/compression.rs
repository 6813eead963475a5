//! gzip of answers, as kube-apiserver compresses them
//! (k8s.io/apiserver `endpoints/handlers/responsewriters`): GETs and LISTs of
//! more than 128 KiB. Of watches it compresses none, in 1.36; nor do we.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::read::GzipList;
use crate::representation::deflate;

/// Bodies of more bytes are compressed.
pub(super) const ABOVE: usize = 128 << 10;

/// Compressing at a time: one for each core. Who comes later waits here, and
/// holds no thread; of those that ask for one list, it then finds most of it
/// compressed. They are no more than requests in flight may be.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores)
});

/// `None` if it cannot be compressed.
pub(super) async fn body(pieces: Vec<Bytes>) -> Option<Vec<Bytes>> {
    let compressed = aside(move || deflate::gzip(&pieces)).await??;
    Some(vec![compressed.into()])
}

/// `None` if it cannot be compressed.
pub(super) async fn list(list: GzipList) -> Option<Vec<Bytes>> {
    if let Some(ready) = list.from_kept() {
        return Some(ready);
    }
    aside(move || list.deflate().ok()).await?
}

/// Not on a thread that serves others. What has begun is brought to its end,
/// whether or not its client waits for it.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let turn = TURNS.acquire().await.ok()?;
    let work = move || {
        let done = work();
        drop(turn);
        done
    };
    tokio::task::spawn_blocking(work).await.ok()
}
