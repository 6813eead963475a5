//! The ways in which a forwarded stream fails.

use tower::BoxError;

use super::connect::ConnectError;

#[derive(Debug, thiserror::Error)]
pub enum LongRunningError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{server}: {error}")]
    Http {
        server: String,
        error: BoxError,
        /// The server did not process the request. Any request may then be sent
        /// again.
        unprocessed: bool,
    },
    #[error("no API server is configured")]
    NoServers,
    #[error("no credentials for the API server: {0}")]
    Credentials(BoxError),
}

impl LongRunningError {
    /// Tells whether another server may be asked.
    pub(super) fn allows_another(&self, repeatable: bool) -> bool {
        match self {
            Self::Connect(_) => true,
            Self::Http { unprocessed, .. } => *unprocessed || repeatable,
            Self::NoServers | Self::Credentials(_) => false,
        }
    }
}
