//! The seats of a request, and the wait for them.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::classification::Classification;
use crate::level::Level;
use crate::queue_set::request::RequestId;
use crate::rejected::Rejected;

/// The level whose seats a request takes. A request keeps its own classification
/// instead of a pointer to the level, since threads would wait for each other to
/// count a level's users.
#[derive(Debug)]
pub(crate) enum SeatedIn {
    Classified(Classification),
    /// Another level, because that of the classification was retired.
    Another(Arc<Level>),
}

impl Deref for SeatedIn {
    type Target = Level;

    fn deref(&self) -> &Level {
        match self {
            Self::Classified(class) => class.level(),
            Self::Another(level) => level,
        }
    }
}

/// The result for a request that is not refused.
pub enum Admission {
    Seats(Seats),
    Waits(QueuedRequest),
}

/// The seats of a request. Dropping it ends the request: its seats are given back,
/// after the additional latency if there is one.
#[derive(Debug)]
pub struct Seats {
    level: SeatedIn,
    id: RequestId,
}

impl Seats {
    pub(crate) fn new(level: SeatedIn, id: RequestId) -> Self {
        Self { level, id }
    }

    #[cfg(test)]
    pub(crate) fn waited(&self) -> Duration {
        self.level.look(|set, _, _| set.waited(self.id))
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        self.level.finish(self.id);
    }
}

/// A place in a queue. Dropping it leaves the queue.
pub struct QueuedRequest {
    level: Option<SeatedIn>,
    id: RequestId,
    go: oneshot::Receiver<()>,
}

impl QueuedRequest {
    pub(crate) fn new(level: SeatedIn, id: RequestId, go: oneshot::Receiver<()>) -> Self {
        Self {
            level: Some(level),
            id,
            go,
        }
    }

    /// Waits for seats, no longer than `most`. Cancel-safe.
    pub async fn seats(mut self, most: Duration) -> Result<Seats, Rejected> {
        let told = timeout(most, &mut self.go).await;
        let level = self.level.take().ok_or(Rejected::TimeOut)?;
        // The seats may have come at the last moment.
        if !matches!(told, Ok(Ok(()))) && level.leave(self.id) {
            return Err(Rejected::TimeOut);
        }
        Ok(Seats::new(level, self.id))
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        if let Some(level) = self.level.take() {
            level.abandon(self.id);
        }
    }
}
