//! All tests against real servers, as one binary: they share one cluster.

#[path = "../harness/mod.rs"]
mod harness;

mod cached_reads;
mod conformance;
mod consistency;
mod health;
mod herd;
mod identity;
mod kubectl;
mod malformed;
mod metrics;
mod personal;
mod reload;
mod restart;
mod streams;
mod traps;
