//! The reasons why the server does not start, or why a configuration is not put in
//! force.

use super::build::BuildError;
use crate::audit::AuditError;
use crate::server::listener::listen::ListenError;
use crate::spans::TracingError;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Upstream(#[from] apifront_upstream::SettingsError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error("TLS: {0}")]
    Tls(String),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Tracing(#[from] TracingError),
    #[error(transparent)]
    Randomness(#[from] apifront_watch_cache::fingerprint::NoRandomness),
}
