//! API Priority and Fairness (KEP-1040), as in kube-apiserver (k8s.io/apiserver
//! `util/flowcontrol`): it decides which requests execute, which wait, and which
//! are refused.
//!
//! - [`Fairness`] is the interface. It holds the configuration in force.
//! - `objects` are the API's objects; `controller.rs` turns them into levels and
//!   schemas.
//! - `matching.rs` finds a request's schema; `flow_hash.rs` and
//!   `shuffle_sharding.rs` find its queues.
//! - `queue_set` is one level's fair queuing, without lock, clock or task.
//!   `level.rs` has the lock, `seats.rs` the waiting callers.
//! - `borrowing.rs` gives levels new limits, which `allocation.rs` computes.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use apifront_fairness::{Fairness, FairnessMetrics, Settings, Width};
//! use http::Method;
//! use kubernetes_wire::api::{Query, UserInfo};
//! use kubernetes_wire::request::RequestInfo;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let metrics = FairnessMetrics::register(&prometheus::Registry::new())?;
//! let fairness = Fairness::new(Settings { total_seats: 600 }, metrics);
//! tokio::spawn(fairness.clone().run());
//!
//! let info = RequestInfo::parse(&Method::GET, "/api/v1/pods", &Query::default())?;
//! let request = Arc::new((info, UserInfo::anonymous()));
//! let class = fairness.classify(request).ok_or("the caller is not known")?;
//! assert_eq!(class.flow_schema(), "global-default");
//! let seats = fairness.admit(&class, Width::from_seats(1), Duration::from_secs(15)).await?;
//! drop(seats);
//! # Ok(())
//! # }
//! ```

// No value from the wire or a file may cause a panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used
    )
)]

mod allocation;
mod borrowing;
mod classification;
mod clock;
mod controller;
mod dropped_requests;
mod dump;
mod fairness;
mod flow_hash;
mod histogram;
mod integrator;
mod level;
mod limits;
mod matching;
mod metrics;
mod objects;
mod queue_set;
mod rejected;
mod request_digest;
mod retry_after;
mod schema;
mod seat_demand;
mod seat_seconds;
mod seats;
mod shuffle_sharding;
mod table;
#[cfg(test)]
mod tests;
mod uid;
mod width;

pub use classification::Classification;
pub use fairness::{Fairness, Settings};
pub use metrics::FairnessMetrics;
pub use objects::{
    DistinguisherMethod, ExemptPriorityLevel, FlowDistinguisherMethod, FlowSchema, FlowSchemaSpec,
    GroupSubject, Ignored, LimitResponse, LimitedPriorityLevel, NonResourcePolicyRule, Objects,
    PolicyRulesWithSubjects, PriorityLevelConfiguration, PriorityLevelReference, PriorityLevelSpec,
    QueuingConfiguration, ResourcePolicyRule, ServiceAccountSubject, Subject, UserSubject,
};
pub use rejected::Rejected;
pub use request_digest::RequestDigest;
pub use seats::{Admission, QueuedRequest, Seats};
pub use width::Width;
