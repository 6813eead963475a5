//! A request that waits, or that executes.

use tokio::sync::oneshot;

use crate::classification::Classification;
use crate::clock::Time;
use crate::seat_seconds::SeatSeconds;
use crate::width::Width;

/// The place of a request in [`Requests`], from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(pub usize);

#[derive(Debug)]
pub(crate) struct Request {
    pub class: Classification,
    /// The place of its schema in the set's statistics.
    pub schema: usize,
    pub width: Width,
    /// The estimated work of both phases together.
    pub total_work: SeatSeconds,
    pub final_work: SeatSeconds,
    /// Its queue, or `None` if it did not go through one.
    pub queue: Option<usize>,
    pub arrival: Time,
    /// The progress meter at the arrival.
    pub arrival_r: SeatSeconds,
    pub started: Option<Time>,
    /// Tells the waiting caller that the request executes. It is taken when it is
    /// sent.
    pub go: Option<oneshot::Sender<()>>,
    /// Its place in the order of arrivals.
    pub order: u64,
}

/// The requests that wait or execute. Freed places are used again, so there are
/// never more places than there were requests at one moment.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    places: Vec<Option<Request>>,
    free: Vec<usize>,
}

impl Requests {
    pub(super) fn insert(&mut self, request: Request) -> RequestId {
        if let Some(at) = self.free.pop()
            && let Some(place) = self.places.get_mut(at)
        {
            *place = Some(request);
            return RequestId(at);
        }
        self.places.push(Some(request));
        RequestId(self.places.len().saturating_sub(1))
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Request> {
        let removed = self.places.get_mut(id.0)?.take()?;
        self.free.push(id.0);
        Some(removed)
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        self.places.get(id.0)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.places.get_mut(id.0)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.places.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.places.iter_mut().flatten()
    }
}
