//! The reading of requests that k8s.io/apiserver makes: `RequestInfo`, the
//! objects a path names, the time a request gives itself, and its metric labels.

mod deadline;
mod metric_classes;
pub mod metric_labels;
mod path;
mod request_info;
mod scope;

pub use deadline::Deadline;
pub use request_info::{RequestInfo, RequestInfoError};
pub use scope::Scope;

#[cfg(test)]
mod tests;
