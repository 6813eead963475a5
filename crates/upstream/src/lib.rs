//! The API servers behind us: where they are, how we prove who we are, and the
//! requests apifront makes there itself.

// No value from the wire or a file may overflow a number, or be looked for where
// it is not.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]

pub mod alone;
mod alone_body;
mod connect;
mod credentials;
mod endpoint;
mod exec;
mod health_check;
mod hop_by_hop;
mod kubeconfig;
mod metrics;
mod pool;
mod response_body;
pub mod review;
mod reviews;
mod settings;
mod streams;
#[cfg(test)]
mod tests;
mod timing;
mod token_file;
mod transport;
mod unreachable;
mod webhook;

pub use credentials::HeaderSource;
pub use endpoint::Endpoint;
pub use health_check::check_health;
pub use hop_by_hop::{HOP_BY_HOP, is_hop_by_hop};
pub use kubeconfig::KubeconfigFieldError;
pub use metrics::{UpstreamKind, UpstreamMetrics};
pub use pool::{Upstream, UpstreamError};
pub use response_body::{BodyError, BodyStream, Bound, ResponseBody};
pub use settings::{Backend, Credentials, OutlierDetection, Server, Settings, SettingsError};
pub use streams::is_unprocessed;
pub use timing::Timing;
pub use transport::{Purpose, Transport};
pub use unreachable::Unreachable;
pub use webhook::WebhookClient;
