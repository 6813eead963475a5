//! One document asked of one server, bounded in time and size whatever the
//! server does.

use std::time::Duration;

use apifront_upstream::{BodyError, BodyLimit, Upstream, UpstreamError, UpstreamKind};
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};

/// What kube-aggregator gives a server for its discovery document. Who takes
/// longer counts as failed, and is asked again later.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// Of the API server: a custom resource takes some 600 bytes, so this is room
/// for 50,000. More counts as failed.
pub(super) const MAX_UPSTREAM_BYTES: usize = 32 << 20;

/// Of a backend, which serves some groups.
pub(super) const MAX_BACKEND_BYTES: usize = 8 << 20;

#[derive(Debug)]
pub(super) enum Fetched {
    Document(Document),
    NotModified,
    Refused(StatusCode),
}

/// An answer of 200.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) body: Bytes,
    pub(super) etag: Option<String>,
    pub(super) content_type: String,
    /// It went through an aggregator: its own headers stand beside those of
    /// the server behind it.
    pub(super) aggregated: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error("no whole answer within {TIMEOUT:?}")]
    Timeout,
    #[error("an answer of more than {0} bytes")]
    TooLarge(usize),
    #[error("the answer broke off: {0}")]
    BrokeOff(tower::BoxError),
}

pub(super) async fn fetch(
    upstream: &Upstream,
    path: &str,
    accept: &str,
    etag: Option<&str>,
    limit: usize,
) -> Result<Fetched, FetchError> {
    let asked = ask(upstream, path, accept, etag, limit);
    tokio::time::timeout(TIMEOUT, asked)
        .await
        .unwrap_or(Err(FetchError::Timeout))
}

async fn ask(
    upstream: &Upstream,
    path: &str,
    accept: &str,
    etag: Option<&str>,
    limit: usize,
) -> Result<Fetched, FetchError> {
    let mut headers = vec![(ACCEPT, accept)];
    headers.extend(etag.map(|etag| (IF_NONE_MATCH, etag)));
    let response = upstream
        .get_with(UpstreamKind::Discovery, path, &headers)
        .await?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if etag.is_some() => return Ok(Fetched::NotModified),
        other => return Ok(Fetched::Refused(other)),
    }
    let (etag, content_type) = (
        text(response.headers(), ETAG),
        text(response.headers(), CONTENT_TYPE).unwrap_or_default(),
    );
    let aggregated = response.headers().get_all(CACHE_CONTROL).iter().count() > 1;
    let bound = BodyLimit::new(limit, TIMEOUT);
    let body = response.into_body().collect_bytes(bound).await;
    let body = body.map_err(|error| match error {
        BodyError::TooLarge(limit) => FetchError::TooLarge(limit),
        BodyError::Late(_) => FetchError::Timeout,
        BodyError::BrokeOff(error) => FetchError::BrokeOff(error),
    })?;
    Ok(Fetched::Document(Document {
        body,
        etag,
        content_type,
        aggregated,
    }))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}
