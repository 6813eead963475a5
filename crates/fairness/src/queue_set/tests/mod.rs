//! Tests of one set of queues, without lock, task or real time.

mod order;
mod shares;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::Notify;

use super::QueueSet;
use super::config::{Dispatching, Queuing};
use super::request::Request;
use crate::classification::Classification;
use crate::clock::Time;
use crate::level::{Level, Surroundings};
use crate::objects::{FlowSchema, Metadata};
use crate::schema::Schema;
use crate::shuffle_sharding::Dealer;
use crate::tests::support::TestClock;

fn queues(queues: usize, hand_size: usize, length_limit: usize) -> Queuing {
    Queuing::Queues {
        queues,
        hand_size,
        length_limit,
        dealer: Dealer::new(queues, hand_size).unwrap(),
    }
}

fn seats(limit: usize) -> Dispatching {
    Dispatching {
        limit,
        denominator: limit,
    }
}

fn set(queuing: Queuing, limit: usize) -> QueueSet {
    let mut set = QueueSet::new(Time(0));
    set.configure(Time(0), queuing, seats(limit));
    set
}

fn of_flow(flow: u64) -> Classification {
    let surroundings = Arc::new(Surroundings {
        clock: Arc::new(TestClock::default()),
        wake: Notify::new(),
        reap: AtomicBool::new(false),
    });
    let object = FlowSchema {
        metadata: Metadata {
            name: "schema".to_owned(),
            uid: "uid".to_owned(),
        },
        ..FlowSchema::default()
    };
    let level = Level::new("level", &surroundings);
    let schema = Arc::new(Schema::new(&object, level, "level-uid", false));
    Classification::of_flow(&schema, flow)
}

impl QueueSet {
    pub(crate) fn seats_in_use(&self) -> usize {
        self.seats_in_use
    }

    /// Counts everything anew, and compares it with the set's own counts.
    pub(crate) fn check(&self) {
        let (mut waiting, mut executing) = ((0, 0), 0);
        let mut lingering: usize = self.lingering.values().map(|l| l.seats).sum();
        let mut queueless = 0;
        for (at, queue) in self.queues.iter().enumerate() {
            let of_queue = |r: &&Request| r.queue == Some(at);
            let mine: Vec<&Request> = self.requests.iter().filter(of_queue).collect();
            let (started, waits): (Vec<&Request>, Vec<&Request>) =
                mine.into_iter().partition(|r| r.started.is_some());
            let seats = |of: &[&Request]| of.iter().map(|r| r.width.max_seats()).sum::<usize>();
            let after: usize = (self.lingering.values())
                .filter(|l| l.queue == Some(at))
                .map(|l| l.seats)
                .sum();
            assert_eq!(queue.executing, started.len());
            assert_eq!(queue.seats_in_use, seats(&started) + after);
            assert_eq!(queue.waiting.len(), waits.len());
            assert_eq!(queue.max_seats, seats(&waits));
            let work: u64 = waits.iter().map(|r| r.total_work.0).sum();
            assert_eq!(queue.total_work.0, work);
            assert_eq!(self.waiting_queues.contains(&at), !waits.is_empty());
            waiting = (waiting.0 + waits.len(), waiting.1 + queue.max_seats);
        }
        for request in self.requests.iter().filter(|r| r.started.is_some()) {
            executing += 1;
            lingering += request.width.max_seats();
            if request.queue.is_none() {
                queueless += request.width.max_seats();
            }
        }
        let of_none = self.lingering.values().filter(|l| l.queue.is_none());
        queueless += of_none.map(|l| l.seats).sum::<usize>();
        assert_eq!((self.waiting_requests, self.waiting_seats), waiting);
        assert_eq!(self.executing_requests, executing);
        assert_eq!(self.seats_in_use, lingering);
        assert_eq!(self.queueless_seats, queueless);
        let active = self.queues.iter().filter(|queue| queue.is_active());
        assert_eq!(self.active_queues, active.count());
        let counted = self.statistics.schemas.iter().fold((0, 0, 0), |sum, s| {
            let (waits, executes) = (s.waiting_requests, s.executing_requests);
            (sum.0 + waits, sum.1 + executes, sum.2 + s.executing_seats)
        });
        assert_eq!(counted, (waiting.0, executing, lingering));
    }
}
