//! Writes the answers that apifront makes itself.
//!
//! A request gives its seat back when its answer is ready. After that, there is a
//! limit on the time of a client that reads slowly (`slow_client.rs`), and on the
//! bytes that wait for it (`crate::flow`).

use std::mem;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderValue, RETRY_AFTER, VARY,
    WARNING, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode, Version, response};
use kubernetes_wire::api::{Query, Status};
use kubernetes_wire::negotiation;
use kubernetes_wire::representation::error_status::encode_status;
use pingora_core::{Error, ErrorType, Result};
use pingora_proxy::Session;
use tokio::time::{Instant, timeout};

use super::body_chunks::BodyChunks;
use super::compression;
use super::cpu_offload::{OffloadRefusal, OffloadUser};
use super::head::{self, Kind};
use super::wire_head;
use crate::audit::Trail;
use crate::flow::{self, HeldBytes};
use crate::server::listener::slow_client::{self, WRITE_TIMEOUT};
use crate::server::stage::access_log::Finished;
use crate::server::stage::context::{CacheResult, RequestContext};
use crate::server::stage::seats;

/// The limits, in bytes and time, for reading a request body that nobody needs, so
/// that its connection can be reused. Go's server reads as much. A client that sends
/// more, or slowly, gets its answer, and its connection is closed.
const MAX_DRAINED: usize = 256 << 10;
pub(in crate::server) const DRAIN_WITHIN: Duration = Duration::from_millis(500);
const LINGER: Duration = Duration::from_millis(500);

/// The labels of `apifront_slow_clients_total`.
const SLOW_READER: &str = "answer";
const TOO_MANY_WAIT: &str = "answer_budget";

/// A whole answer. Its body is a list of pieces of any size: see [`BodyChunks`].
#[derive(Debug)]
pub(in crate::server) struct Answer {
    pub(in crate::server) status: StatusCode,
    pub(in crate::server) headers: HeaderMap,
    pub(in crate::server) body: Vec<Bytes>,
    pub(in crate::server) cache: CacheResult,
    /// Accounts for the bytes that belong to this answer alone, until it is written.
    held: HeldBytes,
    /// Whether the answer names the FlowSchema and the priority level of its
    /// request.
    classified: bool,
}

impl Answer {
    pub(in crate::server) fn new(
        status: StatusCode,
        content_type: &'static str,
        body: Vec<Bytes>,
    ) -> Self {
        let mut headers = HeaderMap::with_capacity(head::ADDED);
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

    /// Compresses a large body, as kube-apiserver does for clients that accept gzip.
    pub(in crate::server) async fn compress(
        &mut self,
        by: OffloadUser<'_>,
    ) -> std::result::Result<(), OffloadRefusal> {
        if self.length() > compression::ABOVE
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
    fn show(&self, trail: &mut Trail) {
        for piece in &self.body {
            trail.response_piece(piece);
        }
    }

    fn take_head(&mut self) -> response::Parts {
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

    fn length(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }
}

/// Sends an answer, and notes it.
pub(in crate::server) async fn send(
    session: &mut Session,
    mut answer: Answer,
    ctx: &mut RequestContext,
) -> Result<()> {
    seats::give_back(&mut ctx.guards.in_flight);
    if !answer.classified {
        ctx.classification = None;
    }
    ctx.reply.cache = answer.cache;
    let request = session.req_header();
    let mut head = answer.take_head();
    head::finish(Kind::Whole, &mut head, request, ctx).await;
    if let Some(trail) = &mut ctx.audit {
        answer.show(trail);
    }
    let header = wire_head::of(head, request.version)?;
    let length = answer.length();
    // To a client that waits for a 100, an answer means not to send the body. Then
    // the connection is not reused.
    let waits = waits_for_100(session);
    if waits || !drain_little(session).await {
        session.set_keepalive(None);
    }
    let head_only = session.req_header().method == http::Method::HEAD || length == 0;
    session.set_write_timeout(Some(WRITE_TIMEOUT));
    session
        .write_response_header(Box::new(header), head_only)
        .await
        .map_err(Error::into_down)?;
    if head_only {
        return Ok(());
    }
    if let Err(slow) = write(session, answer.body, answer.held, ctx).await? {
        ctx.generation().flow.too_slow(slow);
        Finished::new(session, ctx).aborted();
        let error = Error::explain(ErrorType::WriteTimedout, slow);
        return Err(error.into_down());
    }
    if !waits {
        // If the connection closed while the client still sends, the client would
        // lose the answer.
        drain(session, usize::MAX, LINGER).await;
    }
    ctx.reply.bytes = length;
    Ok(())
}

/// Tells whether the client sends its body only after a 100. HTTP/1.0 has no 100
/// (RFC 9110, 10.1.1).
pub(super) fn waits_for_100(session: &mut Session) -> bool {
    let request = session.req_header();
    request.version == Version::HTTP_11
        && request.headers.get(EXPECT).is_some_and(|e| !e.is_empty())
        && !session.as_mut().is_body_empty()
}

/// Writes as fast as the client reads, and gives up if the client is too slow.
/// `Ok(Err)` holds the reason for giving up.
async fn write(
    session: &mut Session,
    body: Vec<Bytes>,
    held: HeldBytes,
    ctx: &RequestContext,
) -> Result<std::result::Result<(), &'static str>> {
    let user = ctx.stage().identified().and_then(|i| i.user());
    let began = Instant::now();
    let mut chunks = BodyChunks::new(body);
    let mut written = 0usize;
    // If the answer's bytes are already accounted for, it may wait for its client.
    let mut held = Some(held).filter(HeldBytes::counts);
    while let Some(piece) = chunks.next() {
        written = written.saturating_add(piece.len());
        let last = chunks.is_done();
        let mut write = std::pin::pin!(session.write_response_body(Some(piece), last));
        if held.is_none() {
            match timeout(seats::PROMPT, &mut write).await {
                Ok(done) => {
                    done.map_err(Error::into_down)?;
                    continue;
                }
                // From here on, the answer waits for its client.
                Err(_) => held = ctx.generation().flow.hold_waiting(user),
            }
            if held.is_none() {
                return Ok(Err(TOO_MANY_WAIT));
            }
        }
        let left = slow_client::allowed(written).saturating_sub(began.elapsed());
        match timeout(left, write).await {
            Ok(Err(e)) if *e.etype() == ErrorType::WriteTimedout => return Ok(Err(SLOW_READER)),
            Ok(done) => done.map_err(Error::into_down)?,
            Err(_) => return Ok(Err(SLOW_READER)),
        }
    }
    Ok(Ok(()))
}

/// Drains a short body. Returns false if the body is long or slow.
pub(in crate::server) async fn drain_little(session: &mut Session) -> bool {
    drain(session, MAX_DRAINED, DRAIN_WITHIN).await
}

/// Reads the rest of a request's body, which would otherwise be taken for the next
/// request. Returns true if all of it was read.
async fn drain(session: &mut Session, most: usize, within: Duration) -> bool {
    let session = session.as_mut();
    let read = async {
        let mut bytes = 0usize;
        while !session.is_body_done() {
            match session.read_request_body().await {
                Ok(Some(piece)) if bytes < most => bytes = bytes.saturating_add(piece.len()),
                Ok(None) => return true,
                Ok(Some(_)) | Err(_) => return false,
            }
        }
        true
    };
    tokio::time::timeout(within, read).await.unwrap_or(false)
}
