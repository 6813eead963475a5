//! The part of a set of queues that dumps show.

use super::QueueSet;
use super::request::Request;
use crate::classification::Classification;
use crate::clock::Time;
use crate::width::Width;

pub(crate) struct SetDump {
    pub is_idle: bool,
    pub waiting: usize,
    pub executing: usize,
    pub dispatched: u64,
    pub rejected: u64,
    pub cancelled: u64,
    pub queues: Vec<QueueDump>,
    /// Requests that execute without having been in a queue.
    pub queueless: Vec<RequestDump>,
}

pub(crate) struct QueueDump {
    /// Oldest first.
    pub waiting: Vec<RequestDump>,
    pub executing: Vec<RequestDump>,
    pub seats_in_use: usize,
    pub next_dispatch: String,
    /// The sums over the requests that wait.
    pub initial_seats: usize,
    pub max_seats: usize,
    pub total_work: String,
}

pub(crate) struct RequestDump {
    pub class: Classification,
    pub width: Width,
    pub arrival: Time,
    pub started: Option<Time>,
}

impl RequestDump {
    fn from_request(request: &Request) -> Self {
        Self {
            class: request.class.clone(),
            width: request.width,
            arrival: request.arrival,
            started: request.started,
        }
    }
}

impl QueueSet {
    pub(crate) fn dump(&self) -> SetDump {
        let mut queues: Vec<QueueDump> = self
            .queues
            .iter()
            .map(|queue| QueueDump {
                waiting: queue
                    .waiting
                    .values()
                    .filter_map(|id| self.requests.get(*id).map(RequestDump::from_request))
                    .collect(),
                executing: Vec::new(),
                seats_in_use: queue.seats_in_use,
                next_dispatch: queue.next_dispatch.to_string(),
                initial_seats: queue.initial_seats,
                max_seats: queue.max_seats,
                total_work: queue.total_work.to_string(),
            })
            .collect();
        let mut queueless = Vec::new();
        for request in self.requests.iter().filter(|r| r.started.is_some()) {
            match request.queue.and_then(|at| queues.get_mut(at)) {
                Some(queue) => queue.executing.push(RequestDump::from_request(request)),
                None => queueless.push(RequestDump::from_request(request)),
            }
        }
        SetDump {
            is_idle: self.is_idle(),
            waiting: self.waiting_requests,
            executing: self.executing_requests,
            dispatched: self.statistics.dispatched,
            rejected: self.statistics.rejected,
            cancelled: self.statistics.cancelled,
            queues,
            queueless,
        }
    }
}
