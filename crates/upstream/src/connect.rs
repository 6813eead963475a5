//! Connects to one API server for callers' requests, outside pingora.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Endpoint, Unreachable};

/// The reason why there is no connection. Nothing was sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot connect to {server}: {error}")]
    Failed {
        server: String,
        /// Shared, since many callers may have waited for this connection.
        error: Arc<io::Error>,
    },
    #[error("{server} did not accept the connection within {after:?}")]
    Timeout { server: String, after: Duration },
}

impl ConnectError {
    pub(super) fn failed(endpoint: &Endpoint, error: io::Error) -> Self {
        Self::Failed {
            server: endpoint.name.clone(),
            error: Arc::new(error),
        }
    }

    pub(super) fn unreachable(&self) -> Option<Unreachable> {
        match self {
            Self::Failed { error, .. } => Unreachable::by_io(error),
            Self::Timeout { .. } => Some(Unreachable::by_timeout(self)),
        }
    }
}

pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

pub(super) enum NewConnection {
    Http1(Box<dyn Io>),
    Http2(Box<dyn Io>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// HTTP/1.1 alone, for upgrades: HTTP/2 has none.
    Http1,
    /// HTTP/2 or HTTP/1.1. HTTP/2 needs TLS: without TLS there is no
    /// negotiation.
    Either,
}

/// Makes the TCP connection and the TLS handshake, both together within `after`.
pub(super) async fn connect(
    endpoint: &Endpoint,
    offer: Offer,
    after: Duration,
) -> Result<NewConnection, ConnectError> {
    let connect = async {
        let tcp = TcpStream::connect(endpoint.address().await?).await?;
        tcp.set_nodelay(true)?;
        let Some(config) = &endpoint.forward.tls else {
            return Ok(NewConnection::Http1(Box::new(tcp)));
        };
        let name = endpoint.forward.server_name.clone();
        let stream = TlsConnector::from(offering(config, offer))
            .connect(name, tcp)
            .await?;
        let agreed = stream.get_ref().1.alpn_protocol();
        Ok(if agreed == Some(b"h2") {
            NewConnection::Http2(Box::new(stream))
        } else {
            NewConnection::Http1(Box::new(stream))
        })
    };
    match tokio::time::timeout(after, connect).await {
        Ok(connected) => connected.map_err(|error| ConnectError::failed(endpoint, error)),
        Err(_) => Err(ConnectError::Timeout {
            server: endpoint.name.clone(),
            after,
        }),
    }
}

fn offering(config: &Arc<ClientConfig>, offer: Offer) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(config);
    config.alpn_protocols = match offer {
        Offer::Http1 => vec![b"http/1.1".to_vec()],
        Offer::Either => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Arc::new(config)
}
