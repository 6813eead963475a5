//! Requests a document within limits of time and size, because the server may send
//! anything, and without end.

use std::time::Duration;

use apifront_upstream::{BodyError, BodyLimit, Upstream, UpstreamError, UpstreamKind};
use bytes::Bytes;
use http::header::{ACCEPT, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};

/// The limits of a request for a document. A server that exceeds one has failed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of the body.
    pub most: usize,
    /// The time from the request to the last byte of the body.
    pub within: Duration,
}

#[derive(Debug)]
pub enum Fetched {
    /// The headers and the body of a 200.
    Document(HeaderMap, Bytes),
    /// The document still has the ETag of the request.
    NotModified,
    /// Any other answer.
    Refused(StatusCode),
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error("not complete after {0:?}")]
    Timeout(Duration),
    #[error("the body: {0}")]
    Body(#[from] BodyError),
}

/// Requests the document at `path`. `etag` is that of the known document.
pub(super) async fn fetch(
    upstream: &Upstream,
    path: &str,
    accept: &str,
    etag: Option<&str>,
    limits: Limits,
) -> Result<Fetched, FetchError> {
    let mut headers = vec![(ACCEPT, accept)];
    headers.extend(etag.map(|etag| (IF_NONE_MATCH, etag)));
    let ask = async {
        let response = upstream
            .get_with(UpstreamKind::Discovery, path, &headers)
            .await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if etag.is_some() => return Ok(Fetched::NotModified),
            other => return Ok(Fetched::Refused(other)),
        }
        let (head, body) = response.into_parts();
        let bound = BodyLimit::new(limits.most, limits.within);
        let body = body.collect_bytes(bound).await?;
        Ok(Fetched::Document(head.headers, body))
    };
    tokio::time::timeout(limits.within, ask)
        .await
        .unwrap_or(Err(FetchError::Timeout(limits.within)))
}
