//! Many backends as one API: which server answers for which group version.

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
