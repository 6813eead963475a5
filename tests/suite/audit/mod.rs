//! Compares audit events with those that kube-apiserver writes for the same
//! requests.

mod backends;
mod differential;
mod world;
