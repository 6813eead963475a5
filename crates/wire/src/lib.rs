//! Kubernetes objects and requests on the wire, byte for byte as kube-apiserver
//! reads and writes them.

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

pub mod api;
pub mod negotiation;
pub mod representation;
pub mod request;
pub mod schema;
