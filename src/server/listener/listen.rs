//! Listening sockets, and the way from a connection to its requests.
//!
//! ```text
//! accept ─ open ─▶ TLS handshake ─▶ HTTP/2 or HTTP/1 ─▶ requests
//!            └ over a limit: closed      (ALPN; without TLS the preface)
//! ```
//!
//! pingora's own accept loop has no place for limits that count connections
//! until they are closed, nor for deadlines of handshake and preface.

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pingora_core::apps::HttpServerApp;
use pingora_core::listeners::tls::Acceptor;
use pingora_core::protocols::l4::stream::Stream as TcpConnection;
use pingora_core::protocols::{ALPN, GetSocketDigest, SocketDigest, Stream, TcpKeepalive};
use pingora_core::server::ShutdownWatch;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::beginning_turns::BeginningTurns;
use super::coalesce::Coalesced;
use super::connection_deadlines::{Deadlines, Ended};
use super::connections::{self, Connections, OpenConnection};
use super::frame_meter::{FrameMeter, Http2State, PREFACE};
use super::head::HeadLimits;
use super::http1::Http1;
use super::http2::{self, Http2Options};
use super::http2_head::Http2Heads;
use crate::metrics::ListenerMetrics;

/// How many connections the kernel holds until they are accepted. Linux lowers the
/// number to `net.core.somaxconn`, which has the same value by default.
const BACKLOG: u32 = 4096;
/// The pause after a failure to accept. Usually the process has no free file, so the
/// next attempt would fail, too. Go waits for 5 ms to 1 s.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// After this time, a silent client is probed; after this number of unanswered
/// probes, its connection ends. Go and kube-apiserver have the same values.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u16 = 9;

#[derive(Clone)]
pub(in crate::server) struct ConnectionSettings {
    pub(in crate::server) connections: Connections,
    pub(in crate::server) metrics: ListenerMetrics,
    pub(in crate::server) deadlines: Deadlines,
    pub(in crate::server) heads: HeadLimits,
    pub(in crate::server) http2: Http2Options,
}

/// A bound socket that is not served yet.
pub(in crate::server) struct Listener {
    pub(in crate::server) address: SocketAddr,
    socket: TcpListener,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}")]
pub struct ListenError {
    pub address: SocketAddr,
    pub error: std::io::Error,
}

impl Listener {
    /// Binds the socket now, so that a taken port is an error at the start.
    pub(in crate::server) fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let listen = || {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let socket = socket.listen(BACKLOG)?;
            let address = socket.local_addr()?;
            Ok(Self { address, socket })
        };
        listen().map_err(|error| ListenError { address, error })
    }

    /// Serves until `shutdown` turns true.
    pub(in crate::server) fn serve<A>(
        self,
        app: A,
        tls: Option<Acceptor>,
        settings: ConnectionSettings,
        shutdown: ShutdownWatch,
    ) -> JoinHandle<()>
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        let service = Arc::new(Service {
            app: Arc::new(app),
            tls,
            settings,
            turns: BeginningTurns::new(Handle::current().metrics().num_workers()),
        });
        tokio::spawn(async move {
            service.accept(self.socket, shutdown).await;
            service.app.http_cleanup().await;
        })
    }
}

struct Service<A> {
    app: Arc<A>,
    tls: Option<Acceptor>,
    settings: ConnectionSettings,
    turns: BeginningTurns,
}

impl<A: HttpServerApp + Send + Sync + 'static> Service<A> {
    async fn accept(self: &Arc<Self>, socket: TcpListener, mut shutdown: ShutdownWatch) {
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                stop = shutdown.wait_for(|stop| *stop) => {
                    drop(stop);
                    return;
                }
            };
            match accepted {
                Ok((stream, peer)) => {
                    let (connections, metrics) =
                        (&self.settings.connections, &self.settings.metrics);
                    let Some(open) = connections.open(peer.ip(), metrics) else {
                        continue;
                    };
                    let (service, shutdown) = (self.clone(), shutdown.clone());
                    tokio::spawn(async move {
                        let ended = service.connection(stream, peer, open, &shutdown).await;
                        if let Some(reason) = ended.reason() {
                            service.settings.metrics.closed(reason);
                            tracing::debug!(client = %peer.ip(), reason, "closed a connection");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        open: OpenConnection,
        shutdown: &ShutdownWatch,
    ) -> Ended {
        let deadlines = self.settings.deadlines;
        // In a box, so that a connection keeps no memory of how it began.
        let begun = timeout(deadlines.header, Box::pin(self.begin(stream, peer)));
        let (stream, http2) = match begun.await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Ended::ByClient,
            Err(_) => return self.too_late(),
        };
        if http2 {
            let state = Http2State::new(Instant::now());
            let meter = FrameMeter::new(state.clone());
            let heads = Http2Heads::new(state.clone(), self.settings.heads.clone(), peer.ip());
            let stream = Box::new(Coalesced::http2(stream, meter, heads, Some(open)));
            let options = &self.settings.http2;
            // The future has its own box, so that the memory of the handshake is
            // released.
            let serves = Box::pin(http2::serve(
                &self.app, stream, state, options, deadlines, shutdown,
            ));
            return self.serve(peer, serves).await;
        }
        let stream = Box::new(Coalesced::http1(stream, Some(open)));
        let http1 = Arc::new(Http1 {
            app: self.app.clone(),
            deadlines,
            limits: self.settings.heads.clone(),
            client: Some(peer.ip()),
            shutdown: shutdown.clone(),
        });
        self.serve(peer, Box::pin(http1.serve(stream))).await
    }

    /// Serves a connection, which has turns while it begins.
    async fn serve<F>(&self, peer: SocketAddr, mut serves: Pin<Box<F>>) -> Ended
    where
        F: Future<Output = Ended>,
    {
        let client = connections::client(peer.ip());
        let ended = self.turns.connection(client, serves.as_mut()).await;
        ended.unwrap_or(Ended::ByClient)
    }

    /// Returns the connection after the TLS handshake, or after the preface without TLS,
    /// and whether it is HTTP/2. `None` if the client has ended it.
    async fn begin(&self, stream: TcpStream, peer: SocketAddr) -> Option<(Stream, bool)> {
        // A handshake takes its first turn when it has something to compute.
        stream.readable().await.ok()?;
        let mut connection = prepare(stream, peer)?;
        let Some(tls) = &self.tls else {
            let http2 = begins_with_preface(&mut connection).await.ok()?;
            return Some((Box::new(connection), http2));
        };
        let client = connections::client(peer.ip());
        let handshake = pin!(tls.tls_handshake(connection));
        let stream = match self.turns.handshake(client, handshake).await.ok()? {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(client = %peer.ip(), %error, "no TLS handshake");
                return None;
            }
        };
        let stream: Stream = Box::new(stream);
        let http2 = matches!(stream.selected_alpn_proto(), Some(ALPN::H2));
        Some((stream, http2))
    }

    fn too_late(&self) -> Ended {
        match self.tls {
            Some(_) => Ended::HandshakeTimeout,
            None => Ended::HeaderTimeout,
        }
    }
}

/// Makes the connection that pingora uses. Returns `None` if the client has gone
/// already.
fn prepare(stream: TcpStream, peer: SocketAddr) -> Option<TcpConnection> {
    let mut connection = TcpConnection::from(stream);
    connection.set_nodelay().ok()?;
    let keepalive = TcpKeepalive {
        idle: KEEPALIVE,
        interval: KEEPALIVE,
        count: KEEPALIVE_PROBES.into(),
        // Without this timeout, data for a client that has vanished is sent
        // again for a quarter of an hour, and no probe is sent.
        #[cfg(target_os = "linux")]
        user_timeout: KEEPALIVE.saturating_mul(u32::from(KEEPALIVE_PROBES).saturating_add(1)),
    };
    connection.set_keepalive(&keepalive).ok()?;
    let digest = SocketDigest::from_raw_fd(connection.as_raw_fd());
    let _set_once = digest.peer_addr.set(Some(peer.into()));
    connection.set_socket_digest(digest);
    Some(connection)
}

/// Tells whether the client begins with the preface of HTTP/2. The bytes that were
/// read for this are put back.
async fn begins_with_preface(connection: &mut TcpConnection) -> std::io::Result<bool> {
    let mut read = [0; PREFACE.len()];
    let mut have = 0;
    while let Some(free) = read.get_mut(have..).filter(|free| !free.is_empty()) {
        let n = connection.read(free).await?;
        have = n.saturating_add(have);
        let begun = read.get(..have).unwrap_or_default();
        if n == 0 || !PREFACE.starts_with(begun) {
            connection.rewind(begun);
            return Ok(false);
        }
    }
    connection.rewind(&read);
    Ok(true)
}
