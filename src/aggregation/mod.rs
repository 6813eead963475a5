//! Shows many backends as one API: finds the server for each group version.

pub mod api_service_objects;
mod api_services;
mod availability;
mod backend;
mod condition;
mod discovery_source;
mod metrics;
pub mod settings;

pub use api_services::{Aggregation, AggregationError, Prepared, Registered, Remote};
pub use availability::Availability;
pub use backend::{Backend, InFlight, first_server};
pub use condition::{Condition, ConditionStatus, Reason};
pub use discovery_source::{Source, SourceVersion};
pub use metrics::AvailabilityMetrics;
pub use settings::{AggregationSettings, ApiService, ServiceReference};
