//! apifront: a reverse proxy, watch cache and API aggregation layer in front of
//! Kubernetes API servers. `ARCHITECTURE.md` is the map.

#![warn(unreachable_pub)]
// No value from the wire or a file may cause a panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used
    )
)]

pub mod aggregation;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod browsers;
pub mod config;
pub mod config_errors;
pub mod config_file;
pub mod deprecation;
pub mod discovery;
pub mod doctor;
pub mod documents;
pub mod flow;
pub mod health;
pub mod identity;
pub mod kubectl_query;
pub mod logging;
pub mod metrics;
pub mod openapi;
pub mod outage;
pub mod queries;
pub mod runtime_config;
pub mod server;
pub mod shadow;
pub mod shapes;
pub mod spans;
pub mod status;
pub mod views;
