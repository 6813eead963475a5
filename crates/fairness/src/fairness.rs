//! The front of the engine: what a server asks of it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kubernetes_wire::api::UserInfo;
use kubernetes_wire::request::RequestInfo;

use crate::classification::Classification;
use crate::level::Level;
use crate::metrics::FairnessMetrics;
use crate::objects::{CATCH_ALL, Ignored, Objects};
use crate::rejected::Rejected;
use crate::schema::Schema;
use crate::seats::Seats;
use crate::width::Width;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The seats of all levels together: kube-apiserver's
    /// `--max-requests-inflight` and `--max-mutating-requests-inflight`.
    pub total_seats: usize,
}

/// Decides which requests execute, wait and are refused.
pub struct Fairness {
    catch_all: ArcSwap<Schema>,
}

impl Fairness {
    /// Begins with the objects that a new cluster has.
    pub fn new(_settings: Settings, _metrics: FairnessMetrics) -> Arc<Self> {
        let schema = Schema {
            name: CATCH_ALL.to_owned(),
            uid: String::new(),
            precedence: 10_000,
            rules: Vec::new(),
            distinguisher: None,
            has_flows: false,
            level: Arc::new(Level::new(CATCH_ALL, false)),
            level_uid: String::new(),
        };
        Arc::new(Self {
            catch_all: ArcSwap::from_pointee(schema),
        })
    }

    /// Puts another number of seats in force.
    pub fn set_total_seats(&self, _seats: usize) {}

    /// Puts the objects of a cluster in force. The mandatory ones are added if
    /// they are absent. Returns what is ignored, and why.
    pub fn configure(&self, _objects: Objects) -> Vec<Ignored> {
        Vec::new()
    }

    /// Finds the schema and the level of a request. There always is one.
    pub fn classify(&self, info: &RequestInfo, user: &UserInfo) -> Classification {
        Classification::new(&self.catch_all.load(), info, user)
    }

    /// Takes the seats of a request, and waits for them no longer than `wait`.
    /// Cancel-safe: a dropped future leaves its queue.
    pub async fn admit(
        self: &Arc<Self>,
        _class: &Classification,
        _width: Width,
        _wait: Duration,
    ) -> Result<Seats, Rejected> {
        Ok(Seats::new(Duration::ZERO))
    }

    /// Returns the seconds after which refused clients of the level should come
    /// back.
    pub fn retry_after(&self, _class: &Classification) -> u64 {
        1
    }

    /// Adjusts the limits of the levels and ends additional latencies, for ever.
    pub async fn run(self: Arc<Self>) {
        std::future::pending::<()>().await;
    }

    /// Returns the body of `/debug/api_priority_and_fairness/dump_priority_levels`.
    pub fn dump_priority_levels(&self) -> String {
        String::new()
    }

    /// Returns the body of `/debug/api_priority_and_fairness/dump_queues`.
    pub fn dump_queues(&self) -> String {
        String::new()
    }

    /// Returns the body of `/debug/api_priority_and_fairness/dump_requests`;
    /// `with_details` is its parameter `includeRequestDetails`.
    pub fn dump_requests(&self, _with_details: bool) -> String {
        String::new()
    }
}
