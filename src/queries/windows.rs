//! The live answers that are open.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use apifront_shares::{Limits, Share, Shares};
use parking_lot::Mutex;
use prometheus::{IntCounter, IntGauge, Registry};
use tokio::sync::oneshot;

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

/// The most updates that are made one after the other in one turn.
const UPDATES_AT_ONCE: usize = 64;

/// Some work of updating live answers.
pub type Work = Box<dyn FnOnce() + Send>;

/// The updates of one user's live answers. They are made together: each alone would wait
/// for a thread.
#[derive(Default)]
struct Queue {
    updates: Mutex<VecDeque<Work>>,
    /// Held by the one that makes updates for all.
    makes: tokio::sync::Mutex<()>,
}

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
    /// Makes an update, together with others of the same user. `run` runs work in a turn
    /// of the user. Returns `None` if the update was not made.
    pub async fn update<T, R>(
        &self,
        update: impl FnOnce() -> T + Send + 'static,
        run: impl Fn(Work) -> R,
    ) -> Option<T>
    where
        T: Send + 'static,
        R: Future<Output = ()>,
    {
        let (made, mut result) = oneshot::channel();
        let work = Box::new(move || drop(made.send(update())));
        self.queue.updates.lock().push_back(work);
        loop {
            let making = tokio::select! {
                biased;
                result = &mut result => return result.ok(),
                making = self.queue.makes.lock() => making,
            };
            let mut updates = {
                let mut waiting = self.queue.updates.lock();
                let some = waiting.len().min(UPDATES_AT_ONCE);
                waiting.drain(..some).collect::<Vec<Work>>()
            };
            if updates.is_empty() {
                return result.await.ok();
            }
            let all = move || updates.drain(..).for_each(|update| update());
            // Those whose updates are dropped get no result.
            run(Box::new(all)).await;
            drop(making);
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    fn windows() -> Windows {
        Windows::register(&Registry::new()).unwrap()
    }

    #[tokio::test]
    async fn updates_of_one_user_are_made_together() {
        let windows = windows();
        let open = |user| windows.open(Some(user), 0).unwrap();
        let (one, other) = (open("a"), open("b"));
        let turns = AtomicUsize::new(0);
        let run = async |work: Work| {
            turns.fetch_add(1, Ordering::Relaxed);
            // Others come meanwhile.
            tokio::task::yield_now().await;
            work();
        };
        let updates = (0..100usize).map(|n| one.update(move || n, run));
        let made = join_all(updates).await;
        assert!(made.into_iter().flatten().eq(0..100));
        assert!(turns.load(Ordering::Relaxed) <= 3, "{turns:?}");
        assert_eq!(other.update(|| 7, run).await, Some(7));
        // Who has no turn has no update, and the next one is made.
        let refuse = async |_: Work| {};
        assert_eq!(one.update(|| 8, refuse).await, None);
        assert_eq!(one.update(|| 9, run).await, Some(9));
    }

    #[test]
    fn one_user_has_half_of_the_memory() {
        let windows = windows();
        let mut open = Vec::new();
        while let Some(window) = windows.open(Some("greedy"), 1 << 20) {
            open.push(window);
        }
        assert_eq!(windows.open_count(), open.len() as u64);
        assert!((100..130).contains(&open.len()), "{}", open.len());
        assert!(windows.open(Some("other"), 1 << 20).is_some());
        drop(open);
        assert_eq!(windows.open_count(), 0);
    }
}
