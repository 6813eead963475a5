//! The errors of requests for a server's document.

use http::StatusCode;

use crate::documents::FetchError;

#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("not the document asked for: {0}")]
    Content(String),
}
