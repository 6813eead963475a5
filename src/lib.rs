//! apifront: a reverse proxy, watch cache and API aggregation layer that stands
//! in front of Kubernetes API servers. `ARCHITECTURE.md` is the map.

pub mod api;
pub mod config;
pub mod flow;
pub mod health;
pub mod logging;
pub mod metrics;
