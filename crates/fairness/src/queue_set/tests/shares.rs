//! The shares of flows that want more than there is, in a simulation: each flow has
//! clients that send one request after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{of_flow, queues, set};
use crate::clock::Time;
use crate::queue_set::request::RequestId;
use crate::queue_set::{QueueSet, Started};
use crate::width::Width;

/// A flow's clients, which are all alike.
#[derive(Clone, Copy)]
struct Flow {
    clients: usize,
    width: Width,
    /// How long a request executes, and how long the client pauses after it.
    executes: Duration,
    thinks: Duration,
}

impl Flow {
    const fn new(clients: usize, executes_ms: u64, thinks_ms: u64) -> Self {
        Self {
            clients,
            width: Width::from_seats(1),
            executes: Duration::from_millis(executes_ms),
            thinks: Duration::from_millis(thinks_ms),
        }
    }

    const fn width(self, initial_seats: u64, final_seats: u64, latency_ms: u64) -> Self {
        Self {
            width: Width {
                initial_seats,
                final_seats,
                additional_latency: Duration::from_millis(latency_ms),
            },
            ..self
        }
    }
}

#[derive(Clone, Copy)]
enum Event {
    Ask(usize),
    End(usize, RequestId),
}

/// The result of a flow.
#[derive(Clone, Copy, Default)]
struct Had {
    seat_seconds: f64,
    requests: u32,
    longest_wait: Duration,
}

struct Simulation {
    set: QueueSet,
    flows: Vec<Flow>,
    events: BTreeMap<(Time, usize), Event>,
    waiting: Vec<(usize, RequestId, Time)>,
    had: Vec<Had>,
    number: usize,
}

const RUNS: Duration = Duration::from_secs(20);

impl Simulation {
    /// Runs flows of which no two share a queue.
    fn run(seats: usize, flows: &[Flow]) -> Vec<Had> {
        let mut this = Self {
            set: set(queues(flows.len(), 1, 1000), seats),
            flows: flows.to_vec(),
            events: BTreeMap::new(),
            waiting: Vec::new(),
            had: vec![Had::default(); flows.len()],
            number: 0,
        };
        for (flow, of) in flows.iter().enumerate() {
            for client in 0..of.clients {
                let at = Time::default().after(Duration::from_micros(client as u64 * 170));
                this.at(at, Event::Ask(flow));
            }
        }
        let end = Time::default().after(RUNS);
        loop {
            let due = this.set.next_due();
            let event = this.events.first_key_value().map(|((at, _), _)| *at);
            let now = due.into_iter().chain(event).min().unwrap();
            if now > end {
                return this.had;
            }
            this.set.advance(now);
            if event == Some(now) {
                let (_, event) = this.events.pop_first().unwrap();
                this.happens(now, event);
            }
            this.note_begun(now);
        }
    }

    fn at(&mut self, at: Time, event: Event) {
        self.number += 1;
        self.events.insert((at, self.number), event);
    }

    fn happens(&mut self, now: Time, event: Event) {
        match event {
            Event::Ask(flow) => {
                // With a hand of one card, the hash is the queue's number.
                let class = of_flow(flow as u64);
                match self.set.start(now, &class, self.flows[flow].width) {
                    Started::Executing(id) | Started::Waiting(id, _) => {
                        self.waiting.push((flow, id, now));
                    }
                    Started::Rejected(reason) => panic!("{reason}"),
                }
            }
            Event::End(flow, id) => {
                let of = self.flows[flow];
                let request = self.set.requests.get(id).unwrap();
                let width = request.width;
                let seats = width.max_seats() as f64;
                let had = &mut self.had[flow];
                had.seat_seconds += seats * (of.executes + width.additional_latency).as_secs_f64();
                had.requests += 1;
                self.set.finish(now, id);
                self.at(now.after(of.thinks), Event::Ask(flow));
            }
        }
    }

    /// Notes the requests that have begun.
    fn note_begun(&mut self, now: Time) {
        self.set.take_granted();
        let set = &self.set;
        let begun = |id: RequestId| set.requests.get(id).unwrap().started.is_some();
        let (begun, waiting): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|(_, id, _)| begun(*id));
        self.waiting = waiting;
        for (flow, id, asked) in begun {
            let had = &mut self.had[flow];
            had.longest_wait = had.longest_wait.max(now.since(asked));
            self.at(now.after(self.flows[flow].executes), Event::End(flow, id));
        }
    }
}

/// The average number of seats that each flow had.
fn seats(had: &[Had]) -> Vec<f64> {
    had.iter()
        .map(|h| h.seat_seconds / RUNS.as_secs_f64())
        .collect()
}

fn assert_seats(had: &[Had], expected: &[f64]) {
    let found = seats(had);
    let close = |(found, expected): (&f64, &f64)| (found - expected).abs() <= 0.05 * expected;
    assert!(
        found.iter().zip(expected).all(close),
        "{found:?}, not {expected:?}"
    );
}

#[test]
fn flows_that_want_all_get_the_same() {
    let had = Simulation::run(
        6,
        &[
            Flow::new(8, 10, 0),
            Flow::new(30, 10, 0),
            Flow::new(9, 10, 0),
        ],
    );
    assert_seats(&had, &[2.0, 2.0, 2.0]);
}

#[test]
fn mice_get_what_they_want_beside_an_elephant() {
    let mouse = Flow::new(1, 10, 40);
    let had = Simulation::run(4, &[Flow::new(100, 10, 0), mouse, mouse]);
    // The next request of a small flow begins as soon as one of the four executing
    // ones ends.
    for mouse in &had[1..] {
        assert!(mouse.longest_wait <= Duration::from_millis(10));
    }
    let of_mouse = seats(&had)[1];
    assert!(of_mouse > 0.16, "{of_mouse}");
    assert_seats(&had, &[4.0 - 2.0 * of_mouse, of_mouse, of_mouse]);
    assert!(had[0].longest_wait > Duration::from_millis(200));
}

#[test]
fn what_one_flow_leaves_the_others_share() {
    let had = Simulation::run(
        9,
        &[
            Flow::new(1, 20, 0),
            Flow::new(50, 20, 0),
            Flow::new(50, 20, 0),
        ],
    );
    // After each of its requests the first flow waits until another one ends.
    assert_seats(&had, &[0.8, 4.1, 4.1]);
}

/// Long requests are no advantage: seats are counted, not requests.
#[test]
fn the_length_of_requests_does_not_matter() {
    let had = Simulation::run(8, &[Flow::new(20, 100, 0), Flow::new(20, 5, 0)]);
    assert_seats(&had, &[4.0, 4.0]);
    let (long, short) = (f64::from(had[0].requests), f64::from(had[1].requests));
    assert!((short / long - 20.0).abs() < 1.0);
}

#[test]
fn the_width_of_requests_does_not_matter() {
    let wide = Flow::new(20, 10, 0).width(3, 0, 0);
    let had = Simulation::run(12, &[wide, Flow::new(30, 10, 0)]);
    assert_seats(&had, &[6.0, 6.0]);
}

/// For a request with an additional latency, the final seats count during that
/// time, not the seats that are taken. Both flows have the same work here.
#[test]
fn additional_latency_counts() {
    let writer = Flow::new(20, 10, 0).width(2, 2, 10);
    let had = Simulation::run(8, &[writer, Flow::new(20, 10, 0)]);
    assert_seats(&had, &[4.0, 4.0]);
}

#[test]
fn all_seats_are_in_use_while_somebody_wants_them() {
    let flows = [Flow::new(3, 7, 3), Flow::new(40, 11, 1), Flow::new(5, 3, 9)];
    let had = Simulation::run(10, &flows);
    let sum: f64 = seats(&had).iter().sum();
    assert!(sum > 9.9, "{sum}");
}

/// The progress meter never overflows: it is wound back along with all values that
/// were read from it, which changes nobody's turn.
#[test]
fn the_progress_meter_is_wound_back() {
    let mut set = set(queues(2, 1, 10), 1);
    set.r.0 = u64::MAX / 4 * 3 - 100_000_000;
    let start = |set: &mut QueueSet, ms: u64, flow| {
        let now = Time(ms * 1_000_000);
        match set.start(now, &of_flow(flow), Width::from_seats(1)) {
            Started::Executing(id) | Started::Waiting(id, _) => id,
            Started::Rejected(reason) => panic!("{reason}"),
        }
    };
    let mut current = start(&mut set, 0, 0);
    let mut expected = Vec::new();
    for n in 0..6 {
        expected.push(start(&mut set, n, n % 2));
    }
    // The other flow comes first, then both in turn.
    expected.swap(0, 1);
    expected.swap(2, 3);
    expected.swap(4, 5);
    for (n, next) in expected.iter().enumerate() {
        set.finish(Time((n as u64 + 1) * 500_000_000), current);
        assert!(set.requests.get(*next).unwrap().started.is_some(), "{n}");
        set.check();
        current = *next;
    }
    assert_eq!(set.statistics.epochs, (1, 0));
}
