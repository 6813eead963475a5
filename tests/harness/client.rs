//! An HTTP client that hides nothing. It returns status, headers and body as
//! received, over HTTP/1.1 or HTTP/2, as any user.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};

use super::certificates::Pair;
use super::logs;

/// The time within which every answer must end. Streams have their own deadlines.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e} in the {} body: {}", self.status, self.text()))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or("")
    }

    /// Tells whether the answer came from the cache. The request must have
    /// carried `x-apifront-debug: cache`.
    pub fn is_hit(&self) -> bool {
        self.header("x-apifront-cache").starts_with("hit; rv=")
    }

    #[track_caller]
    pub fn expect(&self, code: u16) -> Value {
        assert_eq!(self.status.as_u16(), code, "{}", self.text());
        self.json()
    }

    #[track_caller]
    pub fn expect_status(&self, code: u16, reason: &str, message: &str) -> Value {
        let status = self.expect(code);
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(status["reason"].as_str().unwrap_or(""), reason, "{status}");
        assert_eq!(status["message"], message);
        assert_eq!(status["code"], code, "{status}");
        status
    }
}

/// One user of one server. Clones share the HTTP/2 connection. A client
/// belongs to the runtime it was first used on.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    tls: Option<Arc<rustls::ClientConfig>>,
    protocol: Protocol,
    headers: HeaderMap,
    connection: Arc<tokio::sync::Mutex<Option<http2::SendRequest<Full<Bytes>>>>>,
    /// The client's address; any if `None`.
    from: Option<IpAddr>,
}

impl Client {
    pub fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            tls: None,
            protocol: Protocol::Http1,
            headers: HeaderMap::new(),
            connection: Arc::default(),
            from: None,
        }
    }

    /// Connects from another address of this host, such as 127.0.0.2.
    pub fn connecting_from(self, address: IpAddr) -> Self {
        Self {
            from: Some(address),
            connection: Arc::default(),
            ..self
        }
    }

    async fn tcp(&self) -> std::io::Result<TcpStream> {
        let Some(from) = self.from else {
            return TcpStream::connect(self.address).await;
        };
        let socket = match from {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(self.address).await
    }

    /// Returns a client that uses TLS and HTTP/2, as client-go does.
    pub fn tls(address: SocketAddr, ca: &Path, certificate: Option<&Pair>) -> Self {
        Self {
            tls: Some(Arc::new(tls_config(ca, certificate))),
            protocol: Protocol::Http2,
            ..Self::plain(address)
        }
    }

    /// Returns the same user over the other protocol, on its own connections.
    pub fn over(&self, protocol: Protocol) -> Self {
        Self {
            protocol,
            connection: Arc::default(),
            ..self.clone()
        }
    }

    pub fn separate(&self) -> Self {
        self.over(self.protocol)
    }

    pub fn token(self, token: &str) -> Self {
        self.with_header(AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// Adds a header to every request. Headers of the same name stay.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.append(
            HeaderName::from_bytes(name.as_bytes()).expect("header name"),
            HeaderValue::from_str(value).expect("header value"),
        );
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send(Method::GET, path, &[("accept", accept)], Bytes::new())
            .await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send_json(Method::POST, path, "application/json", body)
            .await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send_json(Method::PUT, path, "application/json", body)
            .await
    }

    pub async fn patch(&self, path: &str, kind: &str, body: &Value) -> Answer {
        let content_type = format!("application/{kind}");
        self.send_json(Method::PATCH, path, &content_type, body)
            .await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], Bytes::new()).await
    }

    async fn send_json(&self, method: Method, path: &str, kind: &str, body: &Value) -> Answer {
        let headers = [("content-type", kind), ("accept", "application/json")];
        self.send(method, path, &headers, body.to_string()).await
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let body = body.into();
        let mut answer = self
            .try_send(method.clone(), path, headers, body.clone())
            .await;
        if answer.is_err() && self.may_reset(path) {
            answer = self.try_send(method.clone(), path, headers, body).await;
        }
        answer.unwrap_or_else(|e| panic!("{method} {path} on {}: {e:#}", self.address))
    }

    /// Tells whether the server may reset the stream: a busy kube-apiserver does that to
    /// a watch whose second is over before it begins.
    pub fn may_reset(&self, path: &str) -> bool {
        let mut parameters = path.split(['?', '&']);
        parameters.any(|one| one == "timeoutSeconds=1") && logs::is_of_kube_apiserver(self.address)
    }

    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Answer> {
        let answer = async {
            let response = self.try_open(method, path, headers, body).await?;
            let (parts, body) = response.into_parts();
            Ok(Answer {
                status: parts.status,
                headers: parts.headers,
                body: body.collect().await?.to_bytes(),
            })
        };
        tokio::time::timeout(DEADLINE, answer).await?
    }

    /// Sends a request and returns when the headers have arrived. The body is a
    /// stream.
    pub async fn open(&self, path: &str, headers: &[(&str, &str)]) -> http::Response<Incoming> {
        tokio::time::timeout(
            DEADLINE,
            self.try_open(Method::GET, path, headers, Bytes::new()),
        )
        .await
        .unwrap_or_else(|_| panic!("GET {path}: no headers within {DEADLINE:?}"))
        .unwrap_or_else(|e| panic!("GET {path} on {}: {e:#}", self.address))
    }

    pub async fn try_open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let mut request = Request::builder().method(method);
        let target = request.headers_mut().expect("a fresh request");
        for (name, value) in &self.headers {
            target.append(name, value.clone());
        }
        for (name, value) in headers {
            target.append(
                HeaderName::from_bytes(name.as_bytes())?,
                HeaderValue::from_bytes(value.as_bytes())?,
            );
        }
        let body = Full::new(body.into());
        match self.protocol {
            Protocol::Http1 => {
                if !target.contains_key(HOST) {
                    target.insert(HOST, HeaderValue::from_str(&self.address.to_string())?);
                }
                let request = request.uri(path).body(body)?;
                let mut sender = self.connect_http1().await?;
                Ok(sender.send_request(request).await?)
            }
            Protocol::Http2 => {
                let uri = format!("https://{}{path}", self.address);
                let request = request.uri(uri).body(body)?;
                let mut sender = self.http2_connection().await?;
                Ok(sender.send_request(request).await?)
            }
        }
    }

    async fn connect_http1(&self) -> anyhow::Result<http1::SendRequest<Full<Bytes>>> {
        let stream = self.tcp().await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => {
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                sender
            }
            Some(tls) => {
                let stream = handshake(tls, stream, b"http/1.1").await?;
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                sender
            }
        })
    }

    async fn http2_connection(&self) -> anyhow::Result<http2::SendRequest<Full<Bytes>>> {
        let mut slot = self.connection.lock().await;
        if let Some(sender) = slot.as_ref().filter(|s| !s.is_closed()) {
            return Ok(sender.clone());
        }
        let tls = self.tls.as_ref().expect("HTTP/2 goes over TLS here");
        let stream = self.tcp().await?;
        stream.set_nodelay(true)?;
        let stream = handshake(tls, stream, b"h2").await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(1 << 24)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        *slot = Some(sender.clone());
        Ok(sender)
    }

    /// Tells whether the HTTP/2 connection takes more requests.
    pub async fn is_connected(&self) -> bool {
        let connection = self.connection.lock().await;
        connection.as_ref().is_some_and(|s| !s.is_closed())
    }

    pub async fn raw(&self) -> anyhow::Result<super::raw::RawConnection> {
        let stream = TcpStream::connect(self.address).await?;
        Ok(match &self.tls {
            None => super::raw::RawConnection::new(stream),
            Some(tls) => super::raw::RawConnection::new(handshake(tls, stream, b"http/1.1").await?),
        })
    }

    /// Does the same as [`Client::raw`] after agreeing on HTTP/2.
    pub async fn raw_http2(&self) -> anyhow::Result<super::raw::RawConnection> {
        let tls = self.tls.as_ref().expect("TLS");
        let stream = TcpStream::connect(self.address).await?;
        Ok(super::raw::RawConnection::new(
            handshake(tls, stream, b"h2").await?,
        ))
    }

    pub async fn tls_stream(
        &self,
        protocol: &[u8],
    ) -> anyhow::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let tls = self.tls.as_ref().expect("TLS");
        handshake(tls, TcpStream::connect(self.address).await?, protocol).await
    }

    /// Does the same as [`Client::tls_stream`] from another loopback address,
    /// which looks to a server like another machine.
    pub async fn tls_stream_from(
        &self,
        source: IpAddr,
        protocol: &[u8],
    ) -> anyhow::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let tls = self.tls.as_ref().expect("TLS");
        let stream = connect_from(source, self.address).await?;
        handshake(tls, stream, protocol).await
    }

    pub async fn served_certificate(&self) -> anyhow::Result<Vec<u8>> {
        let tls = self.tls.as_ref().expect("TLS");
        let stream = TcpStream::connect(self.address).await?;
        let stream = handshake(tls, stream, b"http/1.1").await?;
        let (_, session) = stream.get_ref();
        let chain = session.peer_certificates().unwrap_or_default();
        Ok(chain.first().map(|c| c.to_vec()).unwrap_or_default())
    }
}

pub async fn connect_from(source: IpAddr, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(source, 0))?;
    socket.connect(address).await
}

async fn handshake(
    config: &rustls::ClientConfig,
    stream: TcpStream,
    protocol: &[u8],
) -> anyhow::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut config = config.clone();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("127.0.0.1")?;
    Ok(tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?)
}

fn tls_config(ca: &Path, certificate: Option<&Pair>) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(ca).expect("CA file") {
        roots
            .add(root.expect("CA certificate"))
            .expect("CA certificate");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots);
    match certificate {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let chain = CertificateDer::pem_file_iter(&pair.cert)
                .expect("certificate file")
                .collect::<Result<Vec<_>, _>>()
                .expect("certificate");
            let key = PrivateKeyDer::from_pem_file(&pair.key).expect("key file");
            builder
                .with_client_auth_cert(chain, key)
                .expect("client certificate")
        }
    }
}
