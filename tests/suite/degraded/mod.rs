//! Degraded mode: selected reads go on while no API server can be reached.

mod clients;
mod outage;
pub mod rbac;
mod world;
