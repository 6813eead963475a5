//! Compares audit events with those of kube-apiserver for the same requests.

mod backends;
mod differential;
mod world;
