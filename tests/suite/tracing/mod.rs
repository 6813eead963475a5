//! Tests of spans: against those that kube-apiserver sends of the same
//! requests, to the same collector, and with kube-apiserver's own file.

mod collector_away;
mod differential;
mod file;
mod headers;
mod world;
