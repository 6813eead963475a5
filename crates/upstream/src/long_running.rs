//! Requests that do not go through pingora: those that stay open for long
//! (watches, logs) and those that upgrade the connection (exec, attach,
//! port-forward).
//!
//! Streams share HTTP/2 connections of their own kind
//! (`shared_connections.rs`). Upgrades, requests with a body or a large head, and
//! all requests to a server without HTTP/2, have a connection each.
//!
//! pingora's upgrade path is not used: it drops SPDY by default and loses
//! tunnels whose 101 comes early (pingora issue 946). Also, a request that
//! pingora handles cannot be ended in order when apifront stops.

use std::mem;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};

use super::connect::{Io, NewConnection, Offer, connect};
use super::head_size::{LARGE_HEAD, head_size};
pub use super::long_running_body::LongRunningBody;
pub use super::long_running_error::LongRunningError;
use super::request_body::RequestBody;
use super::shared_connections::StreamConnection;
use super::{Endpoint, Upstream};

/// The most headers that an answer may have: pingora's limit. hyper's own limit
/// is 100.
const MAX_HEADERS: usize = 256;

/// The total number of attempts at one server, if it says that it did not process
/// the request or if a connection turns out to be closed.
const MAX_ATTEMPTS: usize = 3;

/// How a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It may be sent again if there is no answer.
    Repeatable,
    Once,
    /// Once, on an HTTP/1.1 connection of its own, whose protocol may change. An
    /// upgrade is not repeated: whatever its method, it may start a command.
    Upgrade,
}

/// The server of an answer, in the answer's extensions.
#[derive(Clone)]
pub struct AnsweredBy(pub Arc<Endpoint>);

impl Upstream {
    /// Sends a request and waits without a time limit for the head of its answer: a
    /// log that nothing is written to has no head yet. The body is sent as it
    /// arrives, once there is a connection to a server. Servers that cannot be
    /// connected to are passed over. Once the request is sent, its answer is final,
    /// unless the request is repeatable and there is no answer. Only the answer to
    /// an upgrade changes the protocol. Dropping the answer, or this future,
    /// cancels the request upstream.
    pub async fn send_long_running(
        &self,
        request: Request<()>,
        mut body: RequestBody,
        sending: Sending,
    ) -> Result<Response<LongRunningBody>, LongRunningError> {
        let mut tried = Vec::new();
        let mut last = LongRunningError::NoServers;
        while let Some(endpoint) = self.pick(&tried) {
            match self.send_to(&endpoint, &request, &mut body, sending).await {
                Ok(answer) if is_unasked_switch(&answer, sending) => {
                    return Err(LongRunningError::Switched);
                }
                Ok(mut answer) => {
                    answer.extensions_mut().insert(AnsweredBy(endpoint));
                    return Ok(answer);
                }
                Err(error) => {
                    if let LongRunningError::Connect(error) = &error {
                        self.could_not_connect(&endpoint, error.unreachable());
                    }
                    if !error.allows_another(sending) {
                        return Err(error);
                    }
                    last = error;
                }
            }
            tried.push(endpoint);
        }
        Err(last)
    }

    async fn send_to(
        &self,
        endpoint: &Endpoint,
        request: &Request<()>,
        body: &mut RequestBody,
        sending: Sending,
    ) -> Result<Response<LongRunningBody>, LongRunningError> {
        let after = self.timing.connect_timeout;
        let request = with_credentials(endpoint, request).await?;
        let target = request
            .uri()
            .path_and_query()
            .map_or(0, |t| t.as_str().len());
        let own = sending == Sending::Upgrade
            || !body.is_empty()
            || head_size(target, request.headers()) > LARGE_HEAD;
        let mut attempts: usize = 0;
        loop {
            attempts = attempts.saturating_add(1);
            let way = if own {
                match connect(endpoint, Offer::Http1, after).await? {
                    NewConnection::Http1(io) | NewConnection::Http2(io) => {
                        StreamConnection::Dedicated(io)
                    }
                }
            } else {
                endpoint.shared_connections.connect(endpoint, after).await?
            };
            let slot = match way {
                StreamConnection::Dedicated(io) => {
                    return ask(endpoint, io, request, mem::take(body)).await;
                }
                StreamConnection::Shared(slot) => slot,
            };
            let used_before = slot.used_before();
            match slot.send(endpoint, &request).await {
                Err(error) if attempts < MAX_ATTEMPTS && is_stale(&error, sending, used_before) => {
                    tracing::debug!(%error, "asking on another connection");
                }
                answer => return answer,
            }
        }
    }
}

/// Tells whether the server switches protocols although no one asked it to.
fn is_unasked_switch<B>(answer: &Response<B>, sending: Sending) -> bool {
    answer.status() == StatusCode::SWITCHING_PROTOCOLS && sending != Sending::Upgrade
}

/// Tells whether the request failed because the server was closing its
/// connection. A new connection may then work.
fn is_stale(error: &LongRunningError, sending: Sending, used_before: bool) -> bool {
    match error {
        LongRunningError::Http {
            unprocessed: true, ..
        } => true,
        LongRunningError::Http { .. } => sending == Sending::Repeatable && used_before,
        _ => false,
    }
}

async fn with_credentials(
    endpoint: &Endpoint,
    request: &Request<()>,
) -> Result<Request<()>, LongRunningError> {
    let mut request = request.clone();
    let own: HeaderMap = endpoint
        .forward
        .headers
        .headers(request.headers())
        .await
        .map_err(LongRunningError::Credentials)?;
    for (name, value) in &own {
        request.headers_mut().append(name, value.clone());
    }
    if let Ok(host) = endpoint.name.parse() {
        request.headers_mut().insert(HOST, host);
    }
    Ok(request)
}

async fn ask(
    endpoint: &Endpoint,
    io: Box<dyn Io>,
    request: Request<()>,
    body: RequestBody,
) -> Result<Response<LongRunningBody>, LongRunningError> {
    let failed = |error: hyper::Error| LongRunningError::Http {
        server: endpoint.name.clone(),
        error: error.into(),
        unprocessed: false,
    };
    let (mut sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        .title_case_headers(true)
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(io))
        .await
        .map_err(failed)?;
    tokio::spawn(connection.with_upgrades());
    let request = request.map(|()| body);
    let answer = sender.send_request(request).await.map_err(failed)?;
    Ok(answer.map(LongRunningBody::own))
}

/// Copies between the two streams until both directions have ended. Each direction
/// closes separately, so that the rest of the other one still arrives.
pub async fn join<C>(
    mut client: C,
    upgrade: hyper::upgrade::OnUpgrade,
) -> std::io::Result<(u64, u64)>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let upgraded = upgrade.await.map_err(std::io::Error::other)?;
    copy_bidirectional(&mut client, &mut TokioIo::new(upgraded)).await
}
