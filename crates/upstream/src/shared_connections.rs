//! HTTP/2 connections that carry callers' watches and logs, many on each: with
//! one per request, ports and the API server's file descriptors would run out.
//!
//! They are apart from pingora's connections for short requests. All on one
//! have the same server and the same credentials; what names a caller stands in
//! the headers of each request. A connection that is lost ends its streams,
//! which their clients resume, as they do when an API server stops.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use h2::{Ping, PingPong};
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use parking_lot::Mutex;
use prometheus::IntGauge;

use super::Endpoint;
use super::connect::{ConnectError, Io, Offer, Spoken, connect};
use super::hop_by_hop::HOP_BY_HOP;
use super::long_running::{LongRunningBody, LongRunningError};

/// Streams on one connection: thousands of watches need tens of connections,
/// and the loss of one ends no more than this many.
const STREAMS_PER_CONNECTION: usize = 100;

/// What one stream may hold that its reader has not taken: HTTP/2's own
/// default. Events and log lines are small; over a way of 2 ms there and back it
/// still carries 32 MB/s.
const STREAM_WINDOW: u32 = 64 << 10;

/// What all streams of a connection may hold. All of them full and unread still
/// leave a fifth: no stream waits for another's reader. It is also the most
/// memory that one connection's unread answers take.
const CONNECTION_WINDOW: u32 = 8 << 20;
const _: () =
    assert!(STREAMS_PER_CONNECTION as u64 * (STREAM_WINDOW as u64) < CONNECTION_WINDOW as u64);

/// What h2 allows frames of fewer than 256 bytes to cost beside their payload
/// before it ends a connection. Log lines are that short, and a reader may leave
/// a window of them: its default, half of the window, is reached by a few dozen
/// such readers; this is not, by all streams with lines of 50 bytes.
const SMALL_FRAMES_BUDGET: usize = 32 << 20;

/// Bytes of an answer's headers: pingora's limit.
const MAX_HEADER_BYTES: u32 = 1 << 20;

/// A connection that carries streams is asked this often whether it still
/// lives, and given up when there is no answer for so long: client-go's time.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// A connection without streams is closed before the API server, or a load
/// balancer on the way, closes it under a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How a request goes to the server.
pub(super) enum StreamConnection {
    /// Over HTTP/1.1, on a connection of its own.
    Dedicated(Box<dyn Io>),
    Shared(StreamSlot),
}

/// The shared connections to one server.
pub(super) struct SharedConnections {
    connections: Mutex<Vec<Arc<Shared>>>,
    /// One connects at a time, so that a herd of watches makes no herd of
    /// connections. Holds the last failure and when its attempt began: who
    /// waited for it has the same.
    connecting: tokio::sync::Mutex<Option<(Instant, ConnectError)>>,
    /// The server last chose HTTP/1.1: then nobody waits for a connection that
    /// cannot be shared.
    speaks_http1: AtomicBool,
    /// Shared connections that are open.
    open: IntGauge,
}

#[derive(Debug)]
struct Shared {
    sender: SendRequest<Bytes>,
    /// Streams on it, and those about to be.
    streams: AtomicUsize,
    /// What the server allows.
    most: AtomicUsize,
    /// It takes no more streams.
    closed: AtomicBool,
    /// Since when it has had no stream.
    idle_since: Mutex<Instant>,
}

/// A stream's place on a connection, free when it is dropped.
#[derive(Debug)]
pub(super) struct StreamSlot {
    connection: Arc<Shared>,
    used_before: bool,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        if self.connection.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.connection.idle_since.lock() = Instant::now();
        }
    }
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

    /// A seat on a connection that there is or that is made; an own connection
    /// where the server does not speak HTTP/2. Cancel-safe.
    pub(super) async fn connect(
        &self,
        endpoint: &Endpoint,
        after: Duration,
    ) -> Result<StreamConnection, ConnectError> {
        if endpoint.forward.tls.is_none() || self.speaks_http1.load(Ordering::Relaxed) {
            return match connect(endpoint, Offer::Either, after).await? {
                Spoken::Http1(io) => Ok(StreamConnection::Dedicated(io)),
                Spoken::Http2(io) => {
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
            Ok(Spoken::Http1(io)) => {
                self.speaks_http1.store(true, Ordering::Relaxed);
                Ok(StreamConnection::Dedicated(io))
            }
            Ok(Spoken::Http2(io)) => self.share(endpoint, io, after).await,
            Err(error) => Err(error),
        };
        *last = way.as_ref().err().map(|error| (began, error.clone()));
        way
    }

    /// A seat on a connection that there is: the first with room, so that those
    /// at the end become idle.
    fn slot(&self) -> Option<StreamSlot> {
        let mut connections = self.connections.lock();
        let now = Instant::now();
        connections.retain(|connection| connection.is_kept(now));
        connections.iter().find_map(Shared::take)
    }

    /// Lets go of connections that nobody has used for a while.
    pub(super) fn sweep(&self, now: Instant) {
        self.connections
            .lock()
            .retain(|connection| connection.is_kept(now));
    }

    /// Makes a connection one that is shared, and takes the first slot.
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
                // Answers that callers give up count here; what protects a server
                // from its clients would end the connection of all.
                .max_local_error_reset_streams(None)
                // Nothing is sent before the server has said how many it takes.
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
        let shared = Arc::new(Shared {
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

impl Shared {
    fn take(self: &Arc<Self>) -> Option<StreamSlot> {
        let most = self
            .most
            .load(Ordering::Relaxed)
            .min(STREAMS_PER_CONNECTION);
        let free = !self.closed.load(Ordering::Acquire);
        if !free || self.streams.load(Ordering::Acquire) >= most {
            return None;
        }
        // Seats are taken under the lock of the list.
        self.streams.fetch_add(1, Ordering::AcqRel);
        Some(StreamSlot {
            connection: self.clone(),
            used_before: true,
        })
    }

    fn is_kept(&self, now: Instant) -> bool {
        let idle = self.streams.load(Ordering::Acquire) == 0;
        let since = *self.idle_since.lock();
        let is_old = idle && now.saturating_duration_since(since) > IDLE_TIMEOUT;
        !is_old && !self.closed.load(Ordering::Acquire)
    }
}

impl StreamSlot {
    /// Whether the connection carried requests before this one.
    pub(super) fn used_before(&self) -> bool {
        self.used_before
    }

    /// Sends the request and waits for the head of its answer.
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

/// The server itself says that it did not look at the request (RFC 9113, 6.8
/// and 8.7). API servers with `--goaway-chance` say so now and then.
pub fn is_unprocessed(error: &h2::Error) -> bool {
    let reason = error.reason();
    error.is_remote()
        && (error.is_go_away() && reason == Some(h2::Reason::NO_ERROR)
            || error.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM))
}

fn for_http2(endpoint: &Endpoint, request: &Request<()>) -> Result<Request<()>, http::Error> {
    let mut request = request.clone();
    // They belong to one HTTP/1.1 connection (RFC 9113, 8.2.2).
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

/// Moves the frames of a connection until it ends or falls silent; its streams
/// end with it.
async fn drive(
    mut connection: Connection<Box<dyn Io>, Bytes>,
    shared: std::sync::Weak<Shared>,
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

/// Resolves when a ping has had no answer. A connection without streams is not
/// asked.
async fn silent(pings: Option<PingPong>, shared: &std::sync::Weak<Shared>) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        let carries = |s: Arc<Shared>| s.streams.load(Ordering::Acquire) > 0;
        if !shared.upgrade().is_some_and(carries) {
            continue;
        }
        match tokio::time::timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection says itself how it ended.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
