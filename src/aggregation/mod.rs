//! Many backends as one API: which server answers for which group version.

mod backend;
mod source;
mod table;

pub use crate::config::{ApiService, ServiceReference};
pub use backend::{Backend, InFlight};
pub use source::{Source, SourceVersion};
pub use table::{Aggregation, AggregationError, Prepared, Registered};
