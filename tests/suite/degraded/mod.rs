//! Degraded mode: chosen reads go on while no API server can be reached.

mod clients;
mod outage;
mod rbac;
mod world;
