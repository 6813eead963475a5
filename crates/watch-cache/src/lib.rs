//! A watch cache of Kubernetes resources: kept equal to an API server by one
//! list and one watch for each resource, and read with kube-apiserver's
//! semantics.

pub mod metrics;
pub mod read;
pub mod reflector;
mod resource_pattern;
mod settings;
pub mod store;
pub mod watch;

pub use resource_pattern::ResourcePattern;
pub use settings::{Consistency, MemoryLimit, Policy, Settings};
