//! The ways in which a forwarded stream fails.

use tower::BoxError;

use super::connect::ConnectError;
use super::long_running::Sending;

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
    #[error("it switched protocols unasked")]
    Switched,
    #[error("no API server is configured")]
    NoServers,
    #[error("no credentials for the API server: {0}")]
    Credentials(BoxError),
}

impl LongRunningError {
    /// Tells whether another server may be tried.
    pub(super) fn allows_another(&self, sending: Sending) -> bool {
        match self {
            Self::Connect(_) => true,
            Self::Http { unprocessed, .. } => *unprocessed || sending == Sending::Repeatable,
            Self::Switched | Self::NoServers | Self::Credentials(_) => false,
        }
    }
}
