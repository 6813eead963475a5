//! Counts open requests, so that apifront can wait for their end when it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The time between checks for the end of the last request. The process waits only
/// once, but each request is counted twice, so only the counting must be cheap.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Counts open requests, and signals when streams must end.
pub struct Drain {
    open: Arc<AtomicUsize>,
    stop: watch::Sender<bool>,
}

/// An open request. It counts as open until this is dropped.
pub struct OpenRequest(Arc<AtomicUsize>);

impl Default for Drain {
    fn default() -> Self {
        Self {
            open: Arc::default(),
            stop: watch::channel(false).0,
        }
    }
}

impl Drain {
    pub(in crate::server) fn open(&self) -> OpenRequest {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self.open.clone())
    }

    /// Returns a value that turns true when endless streams must end.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(in crate::server) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until no request is open, but at most `grace`. Returns the number
    /// of open requests.
    pub(in crate::server) async fn wait(&self, grace: Duration) -> usize {
        let since = Instant::now();
        loop {
            let open = self.open.load(Ordering::Relaxed);
            if open == 0 || since.elapsed() >= grace {
                return open;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_for_the_last_request_but_not_for_ever() {
        let drain = Drain::default();
        let request = drain.open();
        assert_eq!(drain.wait(Duration::from_secs(5)).await, 1);
        let ends = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(request);
        };
        let started = Instant::now();
        let (open, ()) = tokio::join!(drain.wait(Duration::from_secs(5)), ends);
        assert_eq!(open, 0);
        assert!(started.elapsed() < Duration::from_secs(3));
    }
}
