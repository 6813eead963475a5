//! The engine's interface: the calls that a server makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::borrowing::ADJUSTMENT_PERIOD;
use crate::classification::Classification;
use crate::clock::{Clock, SystemClock};
use crate::controller::{Active, Controller};
use crate::dump;
use crate::level::{Level, Surroundings};
use crate::metrics::FairnessMetrics;
use crate::objects::{CATCH_ALL, Ignored, Objects};
use crate::queue_set::Started;
use crate::rejected::Rejected;
use crate::request_digest::RequestDigest;
use crate::seats::{Admission, QueuedRequest, SeatedIn, Seats};
use crate::width::Width;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The seats of all levels together: the sum of kube-apiserver's
    /// `--max-requests-inflight` and `--max-mutating-requests-inflight`.
    pub total_seats: usize,
}

/// Decides which requests execute, which wait and which are refused.
pub struct Fairness {
    surroundings: Arc<Surroundings>,
    pub(crate) controller: Arc<Mutex<Controller>>,
    active: ArcSwap<Active>,
}

impl Fairness {
    /// Begins with the objects that a new cluster has.
    pub fn new(settings: Settings, metrics: FairnessMetrics) -> Arc<Self> {
        Self::with_clock(settings, metrics, SystemClock::shared())
    }

    pub(crate) fn with_clock(
        settings: Settings,
        metrics: FairnessMetrics,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let surroundings = Arc::new(Surroundings {
            clock,
            wake: Notify::new(),
            reap: AtomicBool::new(false),
        });
        let objects = Objects::defaults();
        let mut controller = Controller::new(surroundings.clone(), settings.total_seats, objects);
        // None of kube-apiserver's own objects is ignored.
        let (active, _) = controller.digest();
        let controller = Arc::new(Mutex::new(controller));
        metrics.observe(&controller);
        Arc::new(Self {
            surroundings,
            controller,
            active: ArcSwap::from_pointee(active),
        })
    }

    /// Changes the number of seats.
    pub fn set_total_seats(&self, seats: usize) {
        let mut controller = self.controller.lock();
        controller.set_total_seats(seats);
        self.digest(&mut controller);
    }

    /// Puts the objects of a cluster in force. The mandatory ones are added if they
    /// are absent. Waiting requests keep their places, and removed levels finish
    /// their requests. Returns the objects that are ignored, with reasons.
    pub fn configure(&self, objects: Objects) -> Vec<Ignored> {
        let mut controller = self.controller.lock();
        controller.set_objects(objects);
        self.digest(&mut controller)
    }

    fn digest(&self, controller: &mut Controller) -> Vec<Ignored> {
        let (active, ignored) = controller.digest();
        self.active.store(Arc::new(active));
        ignored
    }

    /// Finds the schema and the level of a request. The result is `None` only if
    /// the caller is not known.
    pub fn classify(&self, request: Arc<dyn RequestDigest>) -> Option<Classification> {
        let active = self.active.load();
        let (info, user) = (request.info(), request.user()?);
        let mut schemas = active.schemas.iter();
        let found = schemas.find(|schema| schema.matches(info, user));
        let schema = found.unwrap_or(&active.catch_all);
        Some(Classification::new(schema, request))
    }

    /// Takes the seats of a request, or a place in a queue for them.
    pub fn start(&self, class: &Classification, width: Width) -> Result<Admission, Rejected> {
        let (level, started) = match class.level().start(class, width) {
            Some(started) => (SeatedIn::Classified(class.clone()), started),
            None => self
                .start_elsewhere(class, width)
                .ok_or(Rejected::ConcurrencyLimit)?,
        };
        match started {
            Started::Executing(id) => Ok(Admission::Seats(Seats::new(level, id))),
            Started::Waiting(id, go) => Ok(Admission::Waits(QueuedRequest::new(level, id, go))),
            Started::Rejected(reason) => Err(reason),
        }
    }

    /// Takes the seats of a request, waiting no longer than `wait`. Cancel-safe:
    /// dropping the future leaves the queue.
    pub async fn admit(
        &self,
        class: &Classification,
        width: Width,
        wait: Duration,
    ) -> Result<Seats, Rejected> {
        match self.start(class, width)? {
            Admission::Seats(seats) => Ok(seats),
            Admission::Waits(place) => place.seats(wait).await,
        }
    }

    /// Begins a request whose level was retired after the request was classified.
    /// Its new level is the one that has the same name now, or else the catch-all
    /// level, which always exists.
    fn start_elsewhere(&self, class: &Classification, width: Width) -> Option<(SeatedIn, Started)> {
        let active = self.active.load();
        let named = |name: &str| active.levels.iter().find(|level| level.name() == name);
        [class.priority_level(), CATCH_ALL]
            .iter()
            .filter_map(|name| named(name))
            .find_map(|level| {
                let started = level.start(class, width)?;
                Some((SeatedIn::Another(level.clone()), started))
            })
    }

    /// Returns the `Retry-After` for one refused client of the level, in seconds. Clients
    /// are spread over time, so each is to have its own.
    pub fn retry_after(&self, class: &Classification) -> u64 {
        class.level().retry_after()
    }

    /// Adjusts the limits of the levels, ends additional latencies and removes
    /// retired levels, forever.
    pub async fn run(self: Arc<Self>) {
        let mut adjust = interval(ADJUSTMENT_PERIOD);
        adjust.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.until_next_due();
            let latency_ends = async {
                match due {
                    Some(due) => sleep(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = adjust.tick() => self.adjust(),
                () = latency_ends => self.end_latencies(),
                () = self.surroundings.wake.notified() => {}
            }
            self.reap();
        }
    }

    pub(crate) fn adjust(&self) {
        self.controller.lock().adjust();
    }

    pub(crate) fn end_latencies(&self) {
        for level in &self.active.load().levels {
            level.change(|set, now| set.advance(now));
        }
    }

    /// Removes unwanted levels that have become idle.
    pub(crate) fn reap(&self) {
        if self.surroundings.reap.swap(false, Ordering::Relaxed) {
            let mut controller = self.controller.lock();
            self.digest(&mut controller);
        }
    }

    fn until_next_due(&self) -> Option<Duration> {
        let active = self.active.load();
        let due = |level: &Arc<Level>| level.look(|set, _, _| set.next_due());
        let next = active.levels.iter().filter_map(due).min()?;
        Some(next.since(self.surroundings.clock.now()))
    }

    /// Returns the body of `/debug/api_priority_and_fairness/dump_priority_levels`.
    pub fn dump_priority_levels(&self) -> String {
        dump::priority_levels(&self.active.load().levels)
    }

    /// Returns the body of `/debug/api_priority_and_fairness/dump_queues`.
    pub fn dump_queues(&self) -> String {
        dump::queues(&self.active.load().levels)
    }

    /// Returns the body of `/debug/api_priority_and_fairness/dump_requests`;
    /// `with_details` is its parameter `includeRequestDetails`.
    pub fn dump_requests(&self, with_details: bool) -> String {
        dump::requests(
            &self.active.load().levels,
            &*self.surroundings.clock,
            with_details,
        )
    }

    #[cfg(test)]
    pub(crate) fn levels(&self) -> Vec<Arc<Level>> {
        self.active.load().levels.clone()
    }
}
