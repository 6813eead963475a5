//! Many backends as one API: which server answers for which group version.

// These modules decide over each request: none of them may overflow a number, or
// look for a value where it is not.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]

mod availability;
mod backend;
mod condition;
mod metrics;
mod source;
mod table;
pub mod view;

pub use crate::config::{ApiService, ServiceReference};
pub use availability::Availability;
pub use backend::{Backend, InFlight};
pub use condition::{Condition, ConditionStatus, Reason};
pub use metrics::AvailabilityMetrics;
pub use source::{Source, SourceVersion};
pub use table::{Aggregation, AggregationError, Prepared, Registered, Remote};
