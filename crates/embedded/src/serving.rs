//! Accepts connections: HTTP/1.1, and h2c with prior knowledge.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{http, server::EmbeddedServer};

/// The most connections; further ones wait in the listen queue. A user's tools or a
/// test open far fewer, and this many do not exhaust the file descriptors.
const MAX_CONNECTIONS: usize = 1024;

/// The pause after the system refused to accept a connection, mostly for lack of
/// file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running server. Dropping the handle stops it.
pub struct Handle {
    address: SocketAddr,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Handle {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, closes every connection, and returns when the listener
    /// is closed.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // If the accept loop panicked, it has ended too.
            let _ = task.await;
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl EmbeddedServer {
    /// Serves on `address` until the handle is stopped or dropped. Port 0 picks
    /// a free port. No client is authenticated, so pass a loopback address.
    pub async fn start(self, address: SocketAddr) -> io::Result<Handle> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(self, listener, stop.clone()));
        Ok(Handle {
            address,
            stop,
            task: Some(task),
        })
    }

    /// Serves the samples, and changes some of them for watches to show.
    pub async fn start_default(address: SocketAddr) -> io::Result<Handle> {
        let server = Self::with_samples();
        let handle = server.clone().start(address).await?;
        server.spawn_activity_until(super::activity::CHANGE_INTERVAL, handle.stop.clone());
        Ok(handle)
    }
}

async fn accept(server: EmbeddedServer, listener: TcpListener, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            let slot = slots.clone().acquire_owned().await.ok();
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            () = stop.cancelled() => return,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(server.clone(), stream, slot);
                let stop = stop.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = connection => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    server: EmbeddedServer,
    stream: TcpStream,
    _slot: Option<OwnedSemaphorePermit>,
) {
    // Watch events are small and should not wait for more data.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(http::serve(server, request).await) }
    });
    let result = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}
