//! apifront: a reverse proxy, watch cache and API aggregation layer that stands
//! in front of Kubernetes API servers. `ARCHITECTURE.md` is the map.

pub mod aggregation;
pub mod api;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod config;
pub mod deprecation;
pub mod discovery;
pub mod embedded;
pub mod flow;
pub mod health;
pub mod identity;
pub mod logging;
pub mod metrics;
pub mod negotiation;
pub mod openapi;
pub mod read;
pub mod reflector;
pub mod representation;
pub mod request;
pub mod schema;
pub mod server;
pub mod store;
pub mod upstream;
pub mod watch;
