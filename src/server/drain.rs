//! Knowing when all requests have ended, to stop gracefully.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Counts open requests and says when to wind up.
pub struct Drain {
    open: Arc<watch::Sender<usize>>,
    stop: watch::Sender<bool>,
}

/// One request; its end is its drop.
pub struct OpenRequest(Arc<watch::Sender<usize>>);

impl Default for Drain {
    fn default() -> Self {
        Self {
            open: Arc::new(watch::channel(0).0),
            stop: watch::channel(false).0,
        }
    }
}

impl Drain {
    pub(super) fn open(&self) -> OpenRequest {
        self.open.send_modify(|n| *n += 1);
        OpenRequest(self.open.clone())
    }

    /// Turns true when streams without an end of their own must end.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until no request is open, at most `grace`. Returns how many are.
    pub(super) async fn wait(&self, grace: Duration) -> usize {
        let mut open = self.open.subscribe();
        let _done = tokio::time::timeout(grace, open.wait_for(|n| *n == 0)).await;
        *self.open.borrow()
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n = n.saturating_sub(1));
    }
}
