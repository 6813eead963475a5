//! Requests with a connection of their own: what stays open for long (watches,
//! logs) and what becomes something else (exec, attach, port-forward).
//!
//! pingora's upgrade path is not used: it drops SPDY by default and loses
//! tunnels whose 101 comes early (pingora issue 946). And a request in its
//! hands cannot be ended in order when apifront stops.

use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Endpoint, Upstream};

#[derive(Debug, thiserror::Error)]
pub enum AloneError {
    #[error("cannot connect to {server}: {error}")]
    Connect {
        server: String,
        error: std::io::Error,
    },
    #[error("{server} did not accept the connection within {after:?}")]
    ConnectTimeout { server: String, after: Duration },
    #[error("{server}: {error}")]
    Http { server: String, error: hyper::Error },
    #[error("no API server is configured")]
    NoServers,
    #[error("no credentials for the API server: {0}")]
    Credentials(tower::BoxError),
}

impl Upstream {
    /// Sends a request without a body and waits, however long, for the head of
    /// its answer: a log that nothing is written to has none yet. Servers that
    /// cannot be connected to are passed over; once the request is sent, its
    /// answer is final, unless the request is `repeatable` and there is none.
    /// Dropping the answer, or this future, cancels upstream.
    pub async fn send_alone(
        &self,
        request: Request<()>,
        repeatable: bool,
    ) -> Result<Response<Incoming>, AloneError> {
        let mut tried = Vec::new();
        let mut last = AloneError::NoServers;
        while let Some(endpoint) = self.pick(&tried) {
            match connect(&endpoint, self.timing.connect_timeout).await {
                Ok(stream) => match ask(&endpoint, stream, request.clone()).await {
                    Err(AloneError::Http { server, error }) if repeatable => {
                        self.report_failure(&endpoint, &error);
                        last = AloneError::Http { server, error };
                    }
                    answer => return answer,
                },
                Err(error) => {
                    self.report_failure(&endpoint, &error);
                    last = error;
                }
            }
            tried.push(endpoint);
        }
        Err(last)
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// TCP and TLS together.
async fn connect(endpoint: &Endpoint, after: Duration) -> Result<Box<dyn Io>, AloneError> {
    let connect = async {
        let tcp = TcpStream::connect(endpoint.address().await?).await?;
        tcp.set_nodelay(true)?;
        let stream: Box<dyn Io> = match &endpoint.forward.tls {
            None => Box::new(tcp),
            Some(config) => {
                let config = http1_only(config);
                let name = endpoint.forward.server_name.clone();
                Box::new(TlsConnector::from(config).connect(name, tcp).await?)
            }
        };
        Ok(stream)
    };
    match tokio::time::timeout(after, connect).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(AloneError::Connect {
            server: endpoint.name.clone(),
            error,
        }),
        Err(_) => Err(AloneError::ConnectTimeout {
            server: endpoint.name.clone(),
            after,
        }),
    }
}

/// Upgrades exist in HTTP/1.1 alone.
fn http1_only(config: &Arc<ClientConfig>) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(config);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

async fn ask(
    endpoint: &Endpoint,
    stream: Box<dyn Io>,
    request: Request<()>,
) -> Result<Response<Incoming>, AloneError> {
    let failed = |error| AloneError::Http {
        server: endpoint.name.clone(),
        error,
    };
    let (mut sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        .title_case_headers(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    tokio::spawn(connection.with_upgrades());

    let (mut head, ()) = request.into_parts();
    let own = endpoint
        .forward
        .headers
        .headers(&head.headers)
        .await
        .map_err(AloneError::Credentials)?;
    for (name, value) in &own {
        head.headers.append(name, value.clone());
    }
    if let Ok(host) = endpoint.name.parse() {
        head.headers.insert(HOST, host);
    }
    let request = Request::from_parts(head, Empty::<Bytes>::new());
    sender.send_request(request).await.map_err(failed)
}

/// Joins the two streams until both directions have ended. Each direction
/// closes on its own, so that what is left of the other still arrives.
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
