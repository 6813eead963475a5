//! The place of an entry's store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use tokio::sync::watch;

use crate::store::{Store, StoreWriter};

/// The interval at which a waiting watch looks whether the form of bookmarks is
/// known.
const BOOKMARK_LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A store and its only writer. Requests and watches get the store, and the cache
/// alone has the writer. So whoever holds the store besides this is a reader.
pub(super) struct OwnedStore {
    pub(super) store: Arc<Store>,
    pub(super) writer: StoreWriter,
}

/// Holds the store from the first list until the resource is given up.
pub(super) struct StoreSlot {
    owned: ArcSwapOption<OwnedStore>,
    /// Becomes true when the first list has arrived or was refused.
    settled: watch::Sender<bool>,
    /// Upstream was asked for bookmarks since the last list, and sent none.
    bookmarkless: AtomicBool,
}

impl Default for StoreSlot {
    fn default() -> Self {
        Self {
            owned: ArcSwapOption::empty(),
            settled: watch::channel(false).0,
            bookmarkless: AtomicBool::new(false),
        }
    }
}

impl StoreSlot {
    pub(super) fn store(&self) -> Option<Arc<Store>> {
        let owned = self.owned.load();
        owned.as_deref().map(|owned| owned.store.clone())
    }

    /// Returns the store with its writer.
    pub(super) fn owned(&self) -> Guard<Option<Arc<OwnedStore>>> {
        self.owned.load()
    }

    /// Returns the store. Waits for the first list for at most `wait`.
    pub(super) async fn store_within(&self, wait: Duration) -> Option<Arc<Store>> {
        let mut settled = self.settled.subscribe();
        let _in_time = tokio::time::timeout(wait, settled.wait_for(|settled| *settled)).await;
        self.store()
    }

    /// Puts a store in place. Closes the watchers of the former store.
    pub(super) fn fill(&self, writer: StoreWriter, store: Arc<Store>) {
        self.bookmarkless.store(false, Ordering::Relaxed);
        let filled = Arc::new(OwnedStore { store, writer });
        if let Some(before) = self.owned.swap(Some(filled)) {
            before.writer.close();
        }
        self.settled.send_replace(true);
    }

    /// Drops the store and closes its watchers.
    pub(super) fn clear(&self) {
        self.settled.send_replace(true);
        if let Some(before) = self.owned.swap(None) {
            before.writer.close();
        }
    }

    /// Tells whether a request or a watch holds the store now. Its writer holds it
    /// only while it applies an event.
    pub(super) fn is_read(&self) -> bool {
        let owned = self.owned.load();
        owned
            .as_deref()
            .is_some_and(|owned| Arc::strong_count(&owned.store) > 1)
    }

    pub(super) fn found_bookmarkless(&self) {
        self.bookmarkless.store(true, Ordering::Relaxed);
    }

    /// Waits until the form of the store's bookmarks is known, for at most `wait`.
    pub(super) async fn bookmark_within(&self, store: &Store, wait: Duration) {
        let known = async {
            while store.resource.bookmark.get().is_none()
                && !self.bookmarkless.load(Ordering::Relaxed)
            {
                tokio::time::sleep(BOOKMARK_LOOK_INTERVAL).await;
            }
        };
        let _in_time = tokio::time::timeout(wait, known).await;
    }
}
