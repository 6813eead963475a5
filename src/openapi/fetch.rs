//! One document asked of a server, bounded in time and size: what a backend
//! serves at these paths may be anything, and may never end.

use std::time::Duration;

use apifront_upstream::{BodyLimit, Upstream, UpstreamError, UpstreamKind};
use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, StatusCode};

/// The merged document of kube-apiserver 1.36 has 2.2 MB, that of a cluster
/// with a thousand CustomResourceDefinitions some 60. A larger one is an error
/// of its server: the one before it stays, or it is forwarded.
pub(super) const MAX_DOCUMENT: usize = 128 << 20;

/// One line for each group version.
pub(super) const MAX_ROOT: usize = 4 << 20;

/// From question to last byte. kube-aggregator waits a minute; a server that
/// takes longer than this, for a document it has ready, hangs.
pub(super) const WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error("not complete after {WITHIN:?}")]
    Timeout,
    #[error("the body: {0}")]
    Body(String),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("not the document asked for: {0}")]
    Content(String),
}

#[derive(Debug)]
pub(super) enum Fetched {
    Document(HeaderMap, Bytes),
    NotModified,
    /// The server does not have it: an answer, not a failure.
    NotFound,
}

pub(super) async fn get(
    upstream: &Upstream,
    path: &str,
    headers: &[(HeaderName, &str)],
    most: usize,
) -> Result<Fetched, FetchError> {
    let fetch = async {
        let response = upstream
            .get_with(UpstreamKind::Discovery, path, headers)
            .await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED => return Ok(Fetched::NotModified),
            StatusCode::NOT_FOUND => return Ok(Fetched::NotFound),
            status => return Err(FetchError::Status(status)),
        }
        let (head, body) = response.into_parts();
        let body = body.collect_bytes(BodyLimit::new(most, WITHIN)).await;
        let body = body.map_err(|e| FetchError::Body(e.to_string()))?;
        Ok(Fetched::Document(head.headers, body))
    };
    tokio::time::timeout(WITHIN, fetch)
        .await
        .unwrap_or(Err(FetchError::Timeout))
}
