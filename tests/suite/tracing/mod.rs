//! Tests spans. Compares them with kube-apiserver's for the same requests, sent to
//! the same collector, with kube-apiserver's own configuration file.

mod collector_away;
mod differential;
mod file;
mod headers;
mod world;
