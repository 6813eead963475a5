//! An extension API server that misbehaves on demand. It writes TLS and HTTP/1.1
//! byte by byte.
//!
//! A [`Mood`], which a test may change, determines its answers to discovery. For
//! every other path under its group version, the path itself names the answer:
//! `…/things/status/404`, `…/things/close`; see [`resource`].

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificates::Pair;
use super::own_thread::OwnThread;
use super::ports;
use super::records::{self, Reply, Showing};

use super::scripted::Seen;

/// The way in which the backend answers, or fails to answer, requests for its
/// discovery documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Fine,
    /// Accepts connections and sends nothing, not even in the TLS handshake.
    Mute,
    /// Reads the request and sends nothing.
    Hanging,
    /// Sends a head without the body that the head promises.
    HangingAfterHead,
    /// Closes connections as soon as they are accepted.
    Closing,
    ClosingAfterRequest,
    /// Sends a body that is shorter than promised.
    HalfClosed,
    /// Answers as `Fine` does, after this delay.
    Slow(Duration),
    /// Answers with this status and a Location.
    Status(u16),
    Html,
    /// Answers with this many bytes that are no discovery document.
    Garbage(usize),
    Huge(usize),
    /// Answers as `Fine` does, in JSON only, with a resource `records` that can
    /// be read.
    Records,
    /// Answers as `Records` does, and shows the records in this way.
    Showing(Showing),
}

type Stream = BufReader<TlsStream<TcpStream>>;

struct Shared {
    group: String,
    version: String,
    mood: Mutex<Mood>,
    seen: Mutex<Vec<Seen>>,
    /// The document of [`Mood::Huge`]. Made for each request, it would keep the one thread
    /// busy for longer than those who ask wait.
    huge: Mutex<Option<(usize, Arc<str>)>>,
}

pub struct Backend {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _thread: OwnThread,
}

impl Backend {
    /// Serves `group` in version v1. `clients` are the authorities of client
    /// certificates; the echo shows the name in such a certificate.
    pub fn start(group: &str, serving: &Pair, clients: &Path, mood: Mood) -> Self {
        Self::serve(ports::listen(), group, serving, clients, mood)
    }

    /// Does the same as [`Backend::start`] at the given address. The backend
    /// has a thread of its own, since the runtimes of tests come and go.
    pub fn start_at(
        address: SocketAddr,
        group: &str,
        serving: &Pair,
        clients: &Path,
        mood: Mood,
    ) -> Self {
        let listener = std::net::TcpListener::bind(address).expect("its port");
        Self::serve(listener, group, serving, clients, mood)
    }

    fn serve(
        listener: std::net::TcpListener,
        group: &str,
        serving: &Pair,
        clients: &Path,
        mood: Mood,
    ) -> Self {
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("non-blocking");
        let acceptor = TlsAcceptor::from(Arc::new(tls_config(serving, clients)));
        let shared = Arc::new(Shared {
            group: group.to_owned(),
            version: "v1".to_owned(),
            mood: Mutex::new(mood),
            seen: Mutex::default(),
            huge: Mutex::default(),
        });
        let all = shared.clone();
        let thread = OwnThread::run(move || accept(listener, acceptor, all));
        Self {
            address,
            shared,
            _thread: thread,
        }
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn become_(&self, mood: Mood) {
        *self.shared.mood.lock().expect("no panic while locked") = mood;
    }

    pub fn seen(&self) -> Vec<Seen> {
        let seen = self.shared.seen.lock();
        seen.expect("no panic while locked").clone()
    }
}

async fn accept(listener: std::net::TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    for number in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        tokio::spawn(connection(stream, acceptor.clone(), shared.clone(), number));
    }
}

async fn connection(tcp: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>, number: usize) {
    match shared.mood() {
        Mood::Closing => return,
        Mood::Mute => {
            // Reads until the other side gives up.
            let mut tcp = tcp;
            let mut buffer = [0; 4096];
            while tcp.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
            return;
        }
        _ => {}
    }
    let Ok(tls) = acceptor.accept(tcp).await else {
        return;
    };
    let peer = peer_name(&tls);
    let mut stream = BufReader::new(tls);
    while let Some(request) = head(&mut stream, number).await {
        let Some(body) = body(&mut stream, &request).await else {
            return;
        };
        shared
            .seen
            .lock()
            .expect("no panic while locked")
            .push(request.clone());
        if answer(&mut stream, &shared, &request, &body, &peer)
            .await
            .is_none()
        {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

impl Shared {
    fn huge(&self, resources: usize) -> Arc<str> {
        let mut huge = self.huge.lock().expect("no panic while locked");
        match &*huge {
            Some((of, text)) if *of == resources => text.clone(),
            _ => {
                let text: Arc<str> = resource_list(self, resources).to_string().into();
                *huge = Some((resources, text.clone()));
                text
            }
        }
    }

    fn mood(&self) -> Mood {
        *self.mood.lock().expect("no panic while locked")
    }

    fn group_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

/// Answers one request. `None` closes the connection.
async fn answer(
    stream: &mut Stream,
    shared: &Shared,
    request: &Seen,
    body: &[u8],
    peer: &str,
) -> Option<()> {
    let (_, target) = request.line.split_once(' ')?;
    let path = target.split('?').next()?;
    let root = format!("/apis/{}", shared.group_version());
    if let Some(rest) = path.strip_prefix(&format!("{root}/")) {
        let showing = match shared.mood() {
            Mood::Showing(showing) => showing,
            _ => Showing::Alike,
        };
        return resource(stream, rest, showing, request, body, peer).await;
    }
    let document = match path {
        _ if path == root => resource_list(shared, 1),
        "/readyz" | "/livez" | "/healthz" => return reply(stream, 200, "text/plain", "ok").await,
        _ => return reply(stream, 404, "text/plain", "404 page not found\n").await,
    };
    match shared.mood() {
        Mood::Fine | Mood::Mute | Mood::Closing => {}
        Mood::Hanging => return std::future::pending().await,
        Mood::HangingAfterHead => {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
            write(stream, head).await?;
            return std::future::pending().await;
        }
        Mood::ClosingAfterRequest => return None,
        Mood::HalfClosed => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
            write(stream, head).await?;
            return None;
        }
        Mood::Slow(time) => crate::pace::of_load(time).await,
        Mood::Status(code) => return reply(stream, code, "text/plain", "as you wish\n").await,
        Mood::Html => return reply(stream, 200, "text/html", HTML).await,
        Mood::Garbage(bytes) => {
            return reply(stream, 200, "application/json", &"x".repeat(bytes)).await;
        }
        Mood::Huge(resources) => {
            return reply(stream, 200, "application/json", &shared.huge(resources)).await;
        }
        Mood::Records | Mood::Showing(_) => {
            let mut list = resource_list(shared, 1);
            list["resources"] = json!([{
                "name": "records", "singularName": "record", "namespaced": false,
                "kind": "Record", "verbs": ["get", "list", "watch"],
            }]);
            return reply(stream, 200, "application/json", &list.to_string()).await;
        }
    }
    reply(stream, 200, "application/json", &document.to_string()).await
}

const HTML: &str = "<html><body><a href=\"/elsewhere\">moved</a></body></html>";

fn resource_list(shared: &Shared, count: usize) -> Value {
    let resources: Vec<Value> = (0..count)
        .map(|n| {
            json!({
                "name": format!("things{n}"), "singularName": format!("thing{n}"),
                "namespaced": false, "kind": format!("Thing{n}"), "verbs": ["create"],
            })
        })
        .collect();
    json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": shared.group_version(), "resources": resources,
    })
}

async fn resource(
    stream: &mut Stream,
    rest: &str,
    showing: Showing,
    request: &Seen,
    body: &[u8],
    peer: &str,
) -> Option<()> {
    let parts: Vec<&str> = rest.split('/').collect();
    match parts.as_slice() {
        ["records", name @ ..] | ["namespaces", _, "records", name @ ..] => {
            let answer = records::answer(showing, name.first().copied(), request)?;
            match answer {
                Reply::Whole(code, kind, text) => reply(stream, code, kind, &text).await,
                Reply::Watch(head) => {
                    write(stream, head).await?;
                    std::future::pending().await
                }
            }
        }
        ["things", "echo", ..] => {
            let echo = json!({
                "line": request.line,
                "headers": request.headers,
                "body": String::from_utf8_lossy(body),
                "peer": peer,
            });
            reply(stream, 200, "application/json", &echo.to_string()).await
        }
        ["things", "status", code] => {
            reply(stream, code.parse().ok()?, "text/plain", "as you wish\n").await
        }
        ["things", "html"] => reply(stream, 200, "text/html", HTML).await,
        ["things", "close"] => None,
        ["things", "half"] => {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nhalf";
            write(stream, head).await?;
            None
        }
        ["things", "half-chunked"] => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
            write(stream, head).await?;
            None
        }
        ["things", "no-http"] => {
            write(stream, "SSH-2.0-OpenSSH_9.9\r\n").await?;
            None
        }
        ["things", "hang"] => std::future::pending().await,
        ["things", "slow", milliseconds] => {
            crate::pace::of_load(Duration::from_millis(milliseconds.parse().ok()?)).await;
            reply(stream, 200, "text/plain", "at last\n").await
        }
        ["things", "long", bytes] => {
            let text = "0123456789abcdef".repeat(bytes.parse::<usize>().ok()? / 16);
            reply(stream, 200, "text/plain", &text).await
        }
        ["things", "drip"] => {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
            write(stream, head).await?;
            for _ in 0..5 {
                write(stream, "5\r\ndrip\n\r\n").await?;
                crate::pace::of_load(Duration::from_millis(100)).await;
            }
            write(stream, "0\r\n\r\n").await
        }
        ["things", "headers"] => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\
                access-control-allow-origin: *\r\naccess-control-allow-credentials: true\r\n\
                access-control-allow-headers: x\r\naccess-control-allow-methods: GET\r\n\
                connection: keep-alive, x-hop\r\nx-hop: by hop\r\nkeep-alive: timeout=5\r\n\
                proxy-authenticate: Basic\r\nwarning: 299 - \"take care\"\r\nwarning: 299 - \"again\"\r\n\
                cache-control: no-cache, private\r\nx-end: to end\r\nset-cookie: a=b\r\n\
                audit-id: of-the-backend\r\n\r\nend";
            write(stream, head).await
        }
        ["things", "upgrade"] => upgrade(stream, request).await,
        ["things", "upgrade-refused", code] => {
            reply(stream, code.parse().ok()?, "text/plain", "no upgrade\n").await
        }
        _ => reply(stream, 404, "text/plain", "404 page not found\n").await,
    }
}

/// Upgrades the connection, says `hello` and then echoes.
async fn upgrade(stream: &mut Stream, request: &Seen) -> Option<()> {
    let protocol = request.header("upgrade").unwrap_or("none");
    let seen = request.header("x-remote-user").unwrap_or("nobody");
    write(
        stream,
        &format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {protocol}\r\nConnection: Upgrade\r\nX-Seen: {seen}\r\n\r\nhello"
        ),
    )
    .await?;
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(n @ 1..) => {
                stream.get_mut().write_all(&buffer[..n]).await.ok()?;
                stream.get_mut().flush().await.ok()?;
            }
            _ => return None,
        }
    }
}

async fn reply(stream: &mut Stream, code: u16, kind: &str, body: &str) -> Option<()> {
    let location = match code {
        300..400 => "location: https://127.0.0.1:1/elsewhere\r\n",
        _ => "",
    };
    let body = if code == 304 || code == 204 { "" } else { body };
    let length = body.len();
    write(
        stream,
        &format!(
            "HTTP/1.1 {code} As Told\r\ncontent-type: {kind}\r\n{location}content-length: {length}\r\n\r\n{body}"
        ),
    )
    .await
}

async fn write(stream: &mut Stream, text: &str) -> Option<()> {
    let stream = stream.get_mut();
    stream.write_all(text.as_bytes()).await.ok()?;
    stream.flush().await.ok()
}

async fn head(stream: &mut Stream, connection: usize) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let (first, headers) = lines.split_first()?;
    Some(Seen {
        connection,
        line: first.strip_suffix(" HTTP/1.1")?.to_owned(),
        headers: headers
            .iter()
            .filter_map(|l| l.split_once(':'))
            .map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()))
            .collect(),
    })
}

async fn body(stream: &mut Stream, request: &Seen) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if !request.chunked() {
        let length = request.header("content-length").unwrap_or("0");
        body.resize(length.parse().ok()?, 0);
        stream.read_exact(&mut body).await.ok()?;
        return Some(body);
    }
    loop {
        let mut size = String::new();
        stream.read_line(&mut size).await.ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let from = body.len();
        body.resize(from + size + 2, 0);
        stream.read_exact(body.get_mut(from..)?).await.ok()?;
        body.truncate(from + size);
        if size == 0 {
            return Some(body);
        }
    }
}

/// Returns the common name in the client's certificate, or `nobody` without a
/// certificate.
fn peer_name(stream: &TlsStream<TcpStream>) -> String {
    let certificate = stream.get_ref().1.peer_certificates();
    let Some(certificate) = certificate.and_then(<[_]>::first) else {
        return "nobody".to_owned();
    };
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).expect("a certificate");
    let name = parsed
        .subject()
        .iter_common_name()
        .next()
        .map(|cn| cn.as_str().expect("a name").to_owned());
    name.unwrap_or_else(|| "nameless".to_owned())
}

fn tls_config(serving: &Pair, clients: &Path) -> rustls::ServerConfig {
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(clients).expect("CA file") {
        roots.add(root.expect("CA certificate")).expect("CA");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots),
        provider.clone(),
    )
    .allow_unauthenticated()
    .build()
    .expect("a verifier");
    let chain = CertificateDer::pem_file_iter(&serving.cert)
        .expect("certificate file")
        .collect::<Result<Vec<_>, _>>()
        .expect("certificate");
    let key = PrivateKeyDer::from_pem_file(&serving.key).expect("key file");
    rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .expect("serving certificate")
}
