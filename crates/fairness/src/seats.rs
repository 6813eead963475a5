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

/// The level whose seats a request takes. Threads wait for each other to count
/// the users of a level, so a request keeps its own classification instead.
#[derive(Debug)]
pub(crate) enum SeatedIn {
    Classified(Classification),
    /// The level of the classification was retired.
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

/// A request gets this unless it is refused.
pub enum Admission {
    Seats(Seats),
    Waits(Place),
}

/// The seats of a request. Dropping it ends the request: its seats are given
/// back, after its additional latency if it has one.
#[derive(Debug)]
pub struct Seats {
    level: SeatedIn,
    id: RequestId,
}

impl Seats {
    pub(crate) fn new(level: SeatedIn, id: RequestId) -> Self {
        Self { level, id }
    }

    /// Returns the time that the request waited for its seats.
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
pub struct Place {
    level: Option<SeatedIn>,
    id: RequestId,
    go: oneshot::Receiver<()>,
}

impl Place {
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
        // The seats may have come in the last moment.
        if !matches!(told, Ok(Ok(()))) && level.leave(self.id) {
            return Err(Rejected::TimeOut);
        }
        Ok(Seats::new(level, self.id))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(level) = self.level.take() {
            level.abandon(self.id);
        }
    }
}
