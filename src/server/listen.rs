//! Listening sockets, and the pingora services behind them.

use std::net::SocketAddr;
use std::os::fd::IntoRawFd;
use std::sync::Arc;

use parking_lot::Mutex;
use pingora_core::apps::{HttpServerApp, HttpServerOptions};
use pingora_core::listeners::ListenerConfig;
use pingora_core::listeners::tls::TlsSettings;
use pingora_core::protocols::l4::stream::L4BufferSettings;
use pingora_core::server::{Fds, ShutdownWatch};
use pingora_core::services::Service as _;
use pingora_core::services::listening::Service;
use tokio::task::JoinHandle;

use super::coalesce::Coalescing;

/// Headers and most answers fit; pingora's default of 1,460 for writes turns
/// small pieces into small packets.
const READ_BUFFER: usize = 16 << 10;
const WRITE_BUFFER: usize = 16 << 10;

/// A bound socket that nobody serves yet.
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    socket: std::net::TcpListener,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}")]
pub struct ListenError {
    pub address: SocketAddr,
    pub error: std::io::Error,
}

impl Listener {
    /// Binds now, so that a taken port is a start-up error.
    pub(super) fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let wrong = |error| ListenError { address, error };
        let socket = std::net::TcpListener::bind(address).map_err(wrong)?;
        // Otherwise accepting would block a whole runtime thread.
        socket.set_nonblocking(true).map_err(wrong)?;
        Ok(Self {
            address: socket.local_addr().map_err(wrong)?,
            socket,
        })
    }

    /// Serves until `shutdown` turns true.
    pub(super) fn serve<A>(
        self,
        name: &str,
        app: A,
        tls: Option<TlsSettings>,
        shutdown: ShutdownWatch,
    ) -> JoinHandle<()>
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        let mut service = Service::new(name.to_owned(), Coalescing::new(app));
        let address = self.address.to_string();
        let buffers = L4BufferSettings::new(READ_BUFFER, WRITE_BUFFER);
        let mut listener = ListenerConfig::tcp(address.clone()).l4_buffer(buffers);
        if let Some(tls) = tls {
            listener = listener.tls(tls);
        }
        service.add_listener(listener);
        let mut fds = Fds::new();
        fds.add(address, self.socket.into_raw_fd());
        let fds = Arc::new(Mutex::new(fds));
        tokio::spawn(async move { service.start_service(Some(fds), shutdown, 1).await })
    }
}

/// HTTP/2 without TLS too: kubectl does not, but proxies in front may.
pub(super) fn server_options() -> HttpServerOptions {
    let mut options = HttpServerOptions::default();
    options.h2c = true;
    options
}
