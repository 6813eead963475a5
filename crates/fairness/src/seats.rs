//! The seats of a request, and the wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::level::Level;
use crate::queue_set::request::RequestId;
use crate::rejected::Rejected;

/// The seats of a request. Dropping it ends the request: its seats are given
/// back, after its additional latency if it has one.
#[derive(Debug)]
pub struct Seats {
    level: Arc<Level>,
    id: RequestId,
    waited: Duration,
}

impl Seats {
    pub(crate) fn new(level: Arc<Level>, id: RequestId, waited: Duration) -> Self {
        Self { level, id, waited }
    }

    /// Returns the time that the request waited for its seats.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        self.level.finish(self.id);
    }
}

/// A place in a queue. Dropping it leaves the queue.
pub(crate) struct Place {
    level: Option<Arc<Level>>,
    id: RequestId,
    go: oneshot::Receiver<()>,
}

impl Place {
    pub(crate) fn new(level: Arc<Level>, id: RequestId, go: oneshot::Receiver<()>) -> Self {
        Self {
            level: Some(level),
            id,
            go,
        }
    }

    /// Waits for seats, no longer than `most`. Cancel-safe.
    pub(crate) async fn seats(mut self, most: Duration) -> Result<Seats, Rejected> {
        let told = timeout(most, &mut self.go).await;
        let level = self.level.take().ok_or(Rejected::TimeOut)?;
        // The seats may have come in the last moment.
        if !matches!(told, Ok(Ok(()))) && level.leave(self.id) {
            return Err(Rejected::TimeOut);
        }
        let waited = level.waited(self.id);
        Ok(Seats::new(level, self.id, waited))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(level) = self.level.take() {
            level.abandon(self.id);
        }
    }
}
