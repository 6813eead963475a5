//! The API servers behind apifront: their addresses, the credentials that
//! apifront shows them, and the requests that apifront makes there itself.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use apifront_upstream::{
//!     BodyLimit, Credentials, Server, Settings, Upstream, UpstreamKind, UpstreamMetrics,
//! };
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let kubeconfig = Path::new("/etc/kubernetes/admin.conf");
//! let server = Server::from_kubeconfig(kubeconfig, None, &Credentials::Own).await?;
//! let settings = Settings {
//!     servers: vec![server],
//!     ..Settings::default()
//! };
//! let metrics = UpstreamMetrics::register(&prometheus::Registry::new())?;
//! let upstream = Upstream::new(&settings, metrics)?;
//!
//! let answer = upstream.get(UpstreamKind::Discovery, "/version").await?;
//! let body = answer.into_body().collect_bytes(BodyLimit::DOCUMENT).await?;
//! println!("{}", String::from_utf8_lossy(&body));
//! # Ok(())
//! # }
//! ```

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

pub mod cdn_loop;
mod certificates;
mod connect;
mod credential_headers;
mod ejection;
mod endpoint;
mod exec_certificate;
mod head_size;
mod health_check;
mod hop_by_hop;
mod kubeconfig;
pub mod long_running;
mod long_running_body;
mod long_running_error;
mod metrics;
mod pem;
mod pool;
pub mod request_body;
pub mod review;
mod review_client;
mod settings;
mod shared_connections;
mod shared_release;
mod silence;
mod source;
mod stream_slot;
#[cfg(test)]
mod tests;
mod timeouts;
mod token_file;
mod transport;
mod unreachable;
mod webhook;

pub use apifront_source::{BodyError, BodyLimit, ResponseBody};
pub use credential_headers::HeaderSource;
pub use endpoint::{Endpoint, causes};
pub use head_size::{LARGE_HEAD, field_size, head_size};
pub use health_check::check_health;
pub use hop_by_hop::{HOP_BY_HOP, is_hop_by_hop};
pub use kubeconfig::{KubeconfigFieldError, certificate_files};
pub use metrics::{UpstreamKind, UpstreamMetrics};
pub use pool::{Upstream, UpstreamError};
pub use settings::{
    BackendSettings, ClientCert, Credentials, OutlierDetection, Server, Settings, SettingsError,
};
pub use shared_connections::is_unprocessed;
pub use timeouts::Timeouts;
pub use transport::{Purpose, Transport};
pub use unreachable::Unreachable;
pub use webhook::WebhookClient;
