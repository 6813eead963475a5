//! A whole answer, before it is sent.

use std::mem;

use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode, response};
use kubernetes_wire::api::{Query, Status};
use kubernetes_wire::negotiation;
use kubernetes_wire::representation::error_status::encode_status;

use super::{compression, head};
use crate::audit::Trail;
use crate::flow::{self, HeldBytes};
use crate::server::offload::{OffloadRefusal, OffloadUser};
use crate::server::stage::context::CacheResult;

/// A whole answer. Its body is a list of pieces of any size: see `body_chunks.rs`.
#[derive(Debug)]
pub(in crate::server) struct Answer {
    pub(in crate::server) status: StatusCode,
    pub(in crate::server) headers: HeaderMap,
    pub(in crate::server) body: Vec<Bytes>,
    pub(in crate::server) cache: CacheResult,
    /// Accounts for the bytes that belong to this answer alone, until it is written.
    pub(super) held: HeldBytes,
    /// Whether the answer names the FlowSchema and the priority level of its
    /// request.
    pub(super) classified: bool,
}

impl Answer {
    pub(in crate::server) fn new(
        status: StatusCode,
        content_type: &'static str,
        body: Vec<Bytes>,
    ) -> Self {
        let mut headers = HeaderMap::with_capacity(head::MAX_ADDED_HEADERS);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self::of_parts(status, headers, body)
    }

    pub(in crate::server) fn of_parts(
        status: StatusCode,
        headers: HeaderMap,
        body: Vec<Bytes>,
    ) -> Self {
        Self {
            status,
            headers,
            body,
            cache: CacheResult::NotAsked,
            held: HeldBytes::default(),
            classified: true,
        }
    }

    pub(in crate::server) fn out_of(self, cache: CacheResult) -> Self {
        Self { cache, ..self }
    }

    /// Makes the answer as if its request had not been classified.
    pub(in crate::server) fn unclassified(self) -> Self {
        Self {
            classified: false,
            ..self
        }
    }

    pub(in crate::server) fn holding(mut self, held: HeldBytes) -> Self {
        self.held = held;
        self
    }

    /// Makes an answer from a Status, in the encoding that the client negotiated.
    pub(in crate::server) fn from_status(
        status: &Status,
        request: &HeaderMap,
        query: &Query,
    ) -> Self {
        let encoding = negotiation::error_encoding(request, query);
        let (content_type, body) = encode_status(status, encoding);
        let mut answer = Self::new(status.http_status(), content_type, vec![body]);
        if status.retry_after() > 0 {
            answer
                .headers
                .insert(RETRY_AFTER, HeaderValue::from(status.retry_after()));
        }
        if status.code == 403 {
            return answer.without_sniffing();
        }
        answer
    }

    /// Returns the 429 of kube-apiserver's flow control. `retry_after` is in
    /// seconds.
    pub(in crate::server) fn too_many_requests(retry_after: u64) -> Self {
        let body = vec![flow::TOO_MANY_REQUESTS_BODY.into()];
        let mut answer = Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            flow::TOO_MANY_REQUESTS_TYPE,
            body,
        );
        let retry_after = HeaderValue::from(retry_after);
        answer.headers.insert(RETRY_AFTER, retry_after);
        answer.without_sniffing()
    }

    /// Adds deprecation warnings, as upstream does.
    pub(in crate::server) fn warn(&mut self, warnings: &[HeaderValue]) {
        for warning in warnings {
            self.headers.append(WARNING, warning.clone());
        }
    }

    pub(in crate::server) fn without_sniffing(mut self) -> Self {
        let nosniff = HeaderValue::from_static("nosniff");
        self.headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
        self
    }

    /// Compresses the body if it is long and a client with these headers accepts that.
    pub(in crate::server) async fn compress_for(
        &mut self,
        headers: &HeaderMap,
        by: OffloadUser<'_>,
    ) -> std::result::Result<(), OffloadRefusal> {
        if compression::is_due(headers, self.length())
            && let Some((body, held)) = compression::body(&self.body, by).await?
        {
            self.set_compressed(body);
            self.held = held;
        }
        Ok(())
    }

    pub(in crate::server) fn set_compressed(&mut self, body: Vec<Bytes>) {
        self.body = body;
        let headers = &mut self.headers;
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }

    /// Shows the body to the audit log, which has seen the head.
    pub(super) fn show(&self, trail: &mut Trail) {
        for piece in &self.body {
            trail.response_piece(piece);
        }
    }

    pub(super) fn take_head(&mut self) -> response::Parts {
        let (mut head, ()) = Response::new(()).into_parts();
        head.status = self.status;
        head.headers = mem::take(&mut self.headers);
        // In a 304, clients would read this as the length of the document. A 204 has
        // none (RFC 9110, 8.6).
        if !matches!(
            self.status,
            StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT
        ) {
            let length = HeaderValue::from(self.length());
            head.headers.insert(CONTENT_LENGTH, length);
        }
        head
    }

    pub(super) fn length(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }
}
