//! Makes the forms in which a resource is listed, after the resource was filled and
//! before lists ask for them.
//!
//! Otherwise a process that has just started would make each form while its first
//! list waits, which takes seconds for 100,000 pods. The forms are those that lists
//! asked for lately. A saved store keeps those of the previous process.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

use apifront_watch_cache::read::Ahead;
use apifront_watch_cache::reflector::{Cache, Entry};
use apifront_watch_cache::store::ListForm;
use futures::future::join_all;

use crate::server::offload::threads;

/// The forms of a resource are made ahead only if there is room for this many times
/// its objects. Without that, lists make them as usual.
const ROOM_FACTOR: usize = 2;

pub(in crate::server) async fn run(cache: Arc<Cache>) {
    loop {
        for entry in cache.refilled().await {
            for form in entry.usage().demand().forms() {
                make(&cache, &entry, form).await;
            }
        }
    }
}

async fn make(cache: &Cache, entry: &Entry, form: ListForm) {
    let Some(store) = entry.store() else {
        return;
    };
    if !cache.has_room(store.memory().objects.saturating_mul(ROOM_FACTOR)) {
        tracing::debug!(resource = %entry.gvr, "no memory to make lists ahead");
        return;
    }
    let began = Instant::now();
    let ahead = Arc::new(Ahead::new(&store, form));
    drop(store);
    let leaves = ahead.leaves();
    if leaves == 0 {
        return;
    }
    let threads = available_parallelism().map_or(1, usize::from).min(leaves);
    join_all((0..threads).map(|_| {
        let ahead = ahead.clone();
        threads::run(move || ahead.make())
    }))
    .await;
    cache.made_ahead();
    tracing::info!(
        resource = %entry.gvr, form = form.as_str(), took = ?began.elapsed(),
        "made the parts of lists ahead"
    );
}
