//! Kubernetes objects and requests on the wire, byte for byte as kube-apiserver
//! reads and writes them.

pub mod api;
pub mod negotiation;
pub mod representation;
pub mod request;
pub mod schema;
