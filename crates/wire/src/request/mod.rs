//! Reads requests as k8s.io/apiserver does: `RequestInfo`, the objects that a path
//! names, the request's time limit, its metric labels, the octets of its target,
//! and the upgrade that it requests.

mod classes;
mod connection_options;
mod deadline;
pub mod metric_labels;
mod path;
mod request_info;
mod scope;
pub mod target;

pub use connection_options::{ConnectionOptions, Protocol, Upgrade, is_framing};
pub use deadline::Deadline;
pub use request_info::{RequestInfo, RequestInfoError};
pub use scope::Scope;

#[cfg(test)]
mod tests;
