//! The store of an entry, together with its only writer.

use std::sync::Arc;

use crate::store::{Store, StoreWriter};

/// Requests and watches get the store, and the cache alone has the writer. So who
/// holds the store besides this is a reader.
pub(super) struct OwnedStore {
    pub(super) store: Arc<Store>,
    pub(super) writer: StoreWriter,
}

impl OwnedStore {
    /// Tells whether a request or a watch holds the store now.
    pub(super) fn is_read(&self) -> bool {
        Arc::strong_count(&self.store) > 1
    }
}
