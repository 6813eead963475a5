//! HTTP/2 connections that carry callers' watches and logs, many on each. With
//! one connection per request, ports and the API server's file descriptors
//! would run out.
//!
//! They are separate from pingora's connections for short requests. All
//! requests on one connection go to the same server with the same credentials;
//! each request's headers name its caller. A connection that is lost ends its
//! streams. Their clients resume them, as they do when an API server stops.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::Connection;
use h2::{Ping, PingPong};
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use parking_lot::Mutex;
use prometheus::IntGauge;

use super::Endpoint;
use super::connect::{ConnectError, Io, NewConnection, Offer, connect};
use super::hop_by_hop::HOP_BY_HOP;
use super::long_running_body::LongRunningBody;
use super::long_running_error::LongRunningError;
use super::stream_slot::{STREAMS_PER_CONNECTION, SharedConnection, StreamSlot};

/// The bytes that one stream may hold before its reader takes them: HTTP/2's
/// own default. Events and log lines are small. With a round trip of 2 ms, a
/// stream still carries 32 MB/s.
const STREAM_WINDOW: u32 = 64 << 10;

/// The bytes that all streams of a connection may hold together. If all streams
/// are full and unread, a fifth remains, so no stream waits for another
/// stream's reader. It is also the most memory that the unread answers of one
/// connection take.
const CONNECTION_WINDOW: u32 = 8 << 20;
const _: () =
    assert!(STREAMS_PER_CONNECTION as u64 * (STREAM_WINDOW as u64) < CONNECTION_WINDOW as u64);

/// The total overhead of frames of fewer than 256 bytes, beside their payload,
/// at which h2 ends a connection. Log lines are that short, and a reader may
/// leave a whole window of them unread. h2's default is half of the window, and
/// a few dozen such readers reach it. All streams with lines of 50 bytes do not
/// reach this budget.
const SMALL_FRAMES_BUDGET: usize = 32 << 20;

const MAX_HEADER_BYTES: u32 = 1 << 20;

/// The time between two pings on a connection that carries streams, and the
/// time after which an unanswered ping ends the connection: client-go's values.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) enum StreamConnection {
    /// A connection for this request alone, over HTTP/1.1.
    Dedicated(Box<dyn Io>),
    Shared(StreamSlot),
}

pub(super) struct SharedConnections {
    connections: Mutex<Vec<Arc<SharedConnection>>>,
    /// Only one task connects at a time, so that many watches that start
    /// together do not open many connections. It holds the last failure and
    /// when that attempt began: tasks that waited for the attempt fail with the
    /// same error.
    connecting: tokio::sync::Mutex<Option<(Instant, ConnectError)>>,
    /// True if the server last chose HTTP/1.1. Requests then do not wait for each
    /// other's connections, which cannot be shared.
    speaks_http1: AtomicBool,
    /// The number of shared connections that are open.
    open: IntGauge,
}

impl SharedConnections {
    pub(super) fn new(open: IntGauge) -> Self {
        Self {
            connections: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            speaks_http1: AtomicBool::new(false),
            open,
        }
    }

    /// Returns a slot on an existing or a new connection, or a dedicated
    /// connection if the server does not speak HTTP/2. Cancel-safe.
    pub(super) async fn connect(
        &self,
        endpoint: &Endpoint,
        after: Duration,
    ) -> Result<StreamConnection, ConnectError> {
        if endpoint.forward.tls.is_none() || self.speaks_http1.load(Ordering::Relaxed) {
            return match connect(endpoint, Offer::Either, after).await? {
                NewConnection::Http1(io) => Ok(StreamConnection::Dedicated(io)),
                NewConnection::Http2(io) => {
                    self.speaks_http1.store(false, Ordering::Relaxed);
                    self.share(endpoint, io, after).await
                }
            };
        }
        if let Some(slot) = self.slot() {
            return Ok(StreamConnection::Shared(slot));
        }
        let arrived = Instant::now();
        let mut last = self.connecting.lock().await;
        if let Some(slot) = self.slot() {
            return Ok(StreamConnection::Shared(slot));
        }
        if let Some((began, error)) = &*last
            && *began >= arrived
        {
            return Err(error.clone());
        }
        let began = Instant::now();
        let way = match connect(endpoint, Offer::Either, after).await {
            Ok(NewConnection::Http1(io)) => {
                self.speaks_http1.store(true, Ordering::Relaxed);
                Ok(StreamConnection::Dedicated(io))
            }
            Ok(NewConnection::Http2(io)) => self.share(endpoint, io, after).await,
            Err(error) => Err(error),
        };
        *last = way.as_ref().err().map(|error| (began, error.clone()));
        way
    }

    /// Returns a slot on an existing connection: the first with room, so that
    /// the connections at the end become idle.
    fn slot(&self) -> Option<StreamSlot> {
        let mut connections = self.connections.lock();
        let now = Instant::now();
        connections.retain(|connection| connection.is_kept(now));
        connections.iter().find_map(SharedConnection::take)
    }

    /// Drops connections that have been idle for long.
    pub(super) fn sweep(&self, now: Instant) {
        self.connections
            .lock()
            .retain(|connection| connection.is_kept(now));
    }

    /// Makes the new connection a shared one, and takes its first slot.
    async fn share(
        &self,
        endpoint: &Endpoint,
        io: Box<dyn Io>,
        after: Duration,
    ) -> Result<StreamConnection, ConnectError> {
        let failed =
            |error: h2::Error| ConnectError::failed(endpoint, std::io::Error::other(error));
        let handshake = async {
            let (sender, mut connection) = h2::client::Builder::new()
                .enable_push(false)
                .initial_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_header_list_size(MAX_HEADER_BYTES)
                .data_frame_budget(SMALL_FRAMES_BUDGET)
                // Answers that callers give up count as local resets. This limit
                // protects a server from its clients; here it would end the
                // connection for all callers.
                .max_local_error_reset_streams(None)
                // No stream is opened before the server has said how many it
                // allows.
                .initial_max_send_streams(0)
                .handshake(io)
                .await?;
            poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => Poll::Ready(Err(h2::Reason::REFUSED_STREAM.into())),
                Poll::Pending if connection.max_concurrent_send_streams() > 0 => {
                    Poll::Ready(Ok(()))
                }
                Poll::Pending => Poll::Pending,
            })
            .await?;
            Ok((sender, connection))
        };
        let (sender, connection) = tokio::time::timeout(after, handshake)
            .await
            .map_err(|_| ConnectError::Timeout {
                server: endpoint.name.clone(),
                after,
            })?
            .map_err(failed)?;
        let shared = Arc::new(SharedConnection {
            sender,
            streams: AtomicUsize::new(1),
            most: AtomicUsize::new(connection.max_concurrent_send_streams()),
            closed: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
        });
        self.open.inc();
        tokio::spawn(drive(
            connection,
            Arc::downgrade(&shared),
            self.open.clone(),
            endpoint.name.clone(),
        ));
        self.connections.lock().push(shared.clone());
        Ok(StreamConnection::Shared(StreamSlot {
            connection: shared,
            used_before: false,
        }))
    }
}

impl StreamSlot {
    pub(super) async fn send(
        self,
        endpoint: &Endpoint,
        request: &Request<()>,
    ) -> Result<Response<LongRunningBody>, LongRunningError> {
        let failed = |error: h2::Error, unprocessed| LongRunningError::Http {
            server: endpoint.name.clone(),
            error: error.into(),
            unprocessed,
        };
        let request = for_http2(endpoint, request).map_err(|error| LongRunningError::Http {
            server: endpoint.name.clone(),
            error: error.into(),
            unprocessed: false,
        })?;
        let sent = match self.connection.sender.clone().ready().await {
            Ok(mut sender) => sender.send_request(request, true),
            Err(error) => Err(error),
        };
        let answer = match sent {
            Ok((answer, _)) => answer.await,
            Err(error) => {
                self.connection.closed.store(true, Ordering::Release);
                return Err(failed(error, true));
            }
        };
        match answer {
            Ok(answer) => Ok(answer.map(|stream| LongRunningBody::shared(stream, self))),
            Err(error) => {
                let unprocessed = is_unprocessed(&error);
                if error.is_go_away() || error.is_io() || unprocessed {
                    self.connection.closed.store(true, Ordering::Release);
                }
                Err(failed(error, unprocessed))
            }
        }
    }
}

/// Tells whether the server says that it did not process the request (RFC 9113,
/// 6.8 and 8.7). API servers with `--goaway-chance` say so now and then.
pub fn is_unprocessed(error: &h2::Error) -> bool {
    let reason = error.reason();
    error.is_remote()
        && (error.is_go_away() && reason == Some(h2::Reason::NO_ERROR)
            || error.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM))
}

fn for_http2(endpoint: &Endpoint, request: &Request<()>) -> Result<Request<()>, http::Error> {
    let mut request = request.clone();
    // These headers belong to one HTTP/1.1 connection (RFC 9113, 8.2.2).
    for name in HOP_BY_HOP.iter().chain([&HOST]) {
        request.headers_mut().remove(name);
    }
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(endpoint.name.parse::<Authority>()?);
    let path = parts.path_and_query.take();
    parts.path_and_query = Some(path.unwrap_or(PathAndQuery::from_static("/")));
    *request.uri_mut() = Uri::from_parts(parts)?;
    *request.version_mut() = http::Version::HTTP_2;
    Ok(request)
}

/// Moves the frames of a connection until it ends or stops answering pings. The
/// streams end with it.
async fn drive(
    mut connection: Connection<Box<dyn Io>, Bytes>,
    shared: std::sync::Weak<SharedConnection>,
    open: IntGauge,
    server: String,
) {
    let pings = connection.ping_pong();
    let frames = poll_fn(|cx| {
        let end = Pin::new(&mut connection).poll(cx);
        if let Some(shared) = shared.upgrade() {
            let most = connection.max_concurrent_send_streams();
            shared.most.store(most, Ordering::Relaxed);
        }
        end
    });
    tokio::select! {
        end = frames => tracing::debug!(server, ?end, "shared connection ended"),
        () = silent(pings, &shared) => {
            tracing::warn!(server, "shared connection gives no answer to pings");
        }
    }
    if let Some(shared) = shared.upgrade() {
        shared.closed.store(true, Ordering::Release);
    }
    open.dec();
}

/// Resolves when a ping was not answered. A connection without streams is not
/// pinged.
async fn silent(pings: Option<PingPong>, shared: &std::sync::Weak<SharedConnection>) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        let carries = |s: Arc<SharedConnection>| s.streams.load(Ordering::Acquire) > 0;
        if !shared.upgrade().is_some_and(carries) {
            continue;
        }
        match tokio::time::timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // `drive` sees how the connection ended.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
