//! A watch cache of Kubernetes resources: kept equal to an API server by one
//! list and one watch for each resource, and read with kube-apiserver's
//! semantics.

// No value from the wire or a file may overflow a number, or be looked for where
// it is not.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]

pub mod metrics;
pub mod read;
pub mod reflector;
mod resource_pattern;
pub mod self_check;
mod settings;
pub mod store;
pub mod watch;

pub use resource_pattern::ResourcePattern;
pub use settings::{Consistency, MemoryLimit, Policy, Settings};
