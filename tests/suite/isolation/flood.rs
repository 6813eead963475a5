//! A caller that floods the server without a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::harness::{elsewhere, eventually};

const UNDER_WAY_WITHIN: Duration = Duration::from_secs(30);

/// Sends requests without a pause until it is dropped.
pub struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Flood {
    /// Calls `ask(n)` for every n, `at_a_time` at a time. Returns when all are under way
    /// and the first were answered.
    pub async fn start<F>(
        at_a_time: usize,
        ask: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let (stop, sent) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let ask = Arc::new(ask);
        let mut tasks = JoinSet::new();
        for _ in 0..at_a_time {
            let (stop, sent, ask) = (stop.clone(), sent.clone(), ask.clone());
            let task = async move {
                while !stop.load(Ordering::Relaxed) {
                    ask(sent.fetch_add(1, Ordering::Relaxed)).await;
                }
            };
            tasks.spawn_on(task, elsewhere::handle());
        }
        eventually("the flood is under way", UNDER_WAY_WITHIN, || async {
            sent.load(Ordering::Relaxed) > at_a_time
        })
        .await;
        Self { stop, sent, tasks }
    }

    /// Ends the flood, and returns the number of its requests. Fails if one of them
    /// did not get what it expected.
    pub fn end(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        self.sent.load(Ordering::Relaxed)
    }
}
