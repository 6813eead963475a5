//! apifront: a reverse proxy, watch cache and API aggregation layer that stands
//! in front of Kubernetes API servers. `ARCHITECTURE.md` is the map.

pub mod aggregation;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod config;
pub mod deprecation;
pub mod discovery;
pub mod documents;
pub mod flow;
pub mod health;
pub mod identity;
pub mod logging;
pub mod metrics;
pub mod openapi;
pub mod server;
