//! The live answers that are open.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use apifront_shares::{Limits, Share, Shares};
use parking_lot::Mutex;
use prometheus::{IntCounter, IntGauge, Registry};

/// The most memory of live answers. One user has at most half of it.
const MAX_BYTES: usize = 256 << 20;

/// The memory of a live answer besides its plan and rows: its connection's stream, its
/// task, its part of maps.
const WINDOW_BYTES: usize = 32 << 10;

pub struct Windows {
    shares: Shares<Arc<str>>,
    /// The queue of each user whose windows are open.
    queues: Mutex<HashMap<Arc<str>, Weak<Queue>>>,
    open: IntGauge,
    updates: IntCounter,
}

/// The live answers of one user are updated one after the other. So they do not crowd
/// out each other, or the user's other work.
type Queue = tokio::sync::Mutex<()>;

/// A live answer, which is open until this is dropped.
pub struct OpenWindow {
    _share: Share<Arc<str>>,
    queue: Arc<Queue>,
    open: IntGauge,
    updates: IntCounter,
}

impl Windows {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let open = IntGauge::new(
            "apifront_query_windows",
            "Live answers of queries that are open.",
        )?;
        registry.register(Box::new(open.clone()))?;
        let updates = IntCounter::new(
            "apifront_query_window_updates_total",
            "Changes of live answers that were sent, each with all rows that changed.",
        )?;
        registry.register(Box::new(updates.clone()))?;
        Ok(Self {
            shares: Shares::new(Limits::shared(MAX_BYTES)),
            queues: Mutex::default(),
            open,
            updates,
        })
    }

    /// Returns the number of live answers that are open.
    pub fn open_count(&self) -> u64 {
        u64::try_from(self.open.get()).unwrap_or_default()
    }

    /// Opens a live answer whose plan and rows take this number of bytes. Returns `None`
    /// if the user has too many.
    pub fn open(&self, user: Option<&str>, bytes: usize) -> Option<OpenWindow> {
        let bytes = bytes.saturating_add(WINDOW_BYTES);
        let share = self.shares.take(user.map(Arc::from), bytes).ok()?;
        self.open.inc();
        Some(OpenWindow {
            _share: share,
            queue: self.queue(user.unwrap_or_default()),
            open: self.open.clone(),
            updates: self.updates.clone(),
        })
    }
}

impl Windows {
    fn queue(&self, user: &str) -> Arc<Queue> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(user).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(Queue::default());
        queues.insert(user.into(), Arc::downgrade(&queue));
        queue
    }
}

impl OpenWindow {
    /// Waits until no other live answer of the same user is being updated.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.queue.lock().await
    }

    pub fn updated(&self) {
        self.updates.inc();
    }
}

impl Drop for OpenWindow {
    fn drop(&mut self) {
        self.open.dec();
    }
}
