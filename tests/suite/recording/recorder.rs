//! A server that records the octets of every request, and answers as planned. It
//! takes the place of an API server or of a backend.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::exchange::{AnswerFraming, Arrived, Ending, Planned, fields_of};
use super::ledger::{self, Ledger};
use super::{fields, http1_server, http2_server};
use crate::harness::certificates::Pair;
use crate::harness::own_thread::OwnThread;
use crate::harness::ports;

pub const GROUP: &str = "recording.example";
pub const TOKEN: &str = "token-of-alice";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/1.1 without TLS.
    Plain,
    /// HTTP/1.1 over TLS.
    Http1,
    /// HTTP/1.1 and HTTP/2 over TLS, chosen by ALPN.
    Both,
}

pub struct Recorder {
    pub address: SocketAddr,
    speaks: Speaks,
    _thread: OwnThread,
}

/// The shared state of a recorder's connections.
pub struct Shared {
    pub name: &'static str,
    pub ledger: Arc<Ledger>,
}

impl Recorder {
    pub fn start(name: &'static str, speaks: Speaks, serving: &Pair, ledger: &Arc<Ledger>) -> Self {
        let listener = ports::listen();
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("non-blocking");
        let shared = Arc::new(Shared {
            name,
            ledger: ledger.clone(),
        });
        let tls = (speaks != Speaks::Plain)
            .then(|| TlsAcceptor::from(Arc::new(tls_config(serving, speaks))));
        let thread = OwnThread::run(move || accept(listener, tls, shared));
        Self {
            address,
            speaks,
            _thread: thread,
        }
    }

    pub fn url(&self) -> String {
        let scheme = match self.speaks {
            Speaks::Plain => "http",
            _ => "https",
        };
        format!("{scheme}://{}", self.address)
    }
}

async fn accept(listener: std::net::TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, shared) = (tls.clone(), shared.clone());
        tokio::spawn(connection(stream, tls, shared));
    }
}

async fn connection(tcp: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    tcp.set_nodelay(true).expect("nodelay");
    let Some(tls) = tls else {
        return http1_server::serve(BufReader::new(tcp), &shared).await;
    };
    let Ok(stream) = tls.accept(tcp).await else {
        return;
    };
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => http2_server::serve(stream, &shared).await,
        _ => http1_server::serve(BufReader::new(stream), &shared).await,
    }
}

impl Shared {
    /// Returns the answer to a request whose head has arrived, and the request's
    /// number if a client sent it.
    pub fn answer_to(&self, request: &Arrived) -> Answer {
        let number = ledger::number(&request.fields);
        match number.and_then(|number| Some((number, self.ledger.planned(number)?))) {
            Some((number, planned)) => Answer {
                number: Some(number),
                planned,
            },
            // A number without a plan belongs to a request that arrives after its
            // end.
            None => Answer {
                number,
                planned: Arc::new(own_answer(request)),
            },
        }
    }

    /// Keeps a request whose body has ended or will not arrive.
    pub fn record(&self, number: Option<u64>, request: Arrived) {
        match number {
            Some(number) => self.ledger.arrived(number, request),
            None if is_own(&request) => self.ledger.own(),
            None => self.ledger.stranger(request),
        }
    }
}

pub struct Answer {
    pub number: Option<u64>,
    pub planned: Arc<Planned>,
}

/// Tells whether apifront made the request for itself. Its caches' requests show it
/// in `CDN-Loop`, its probes and reviews by their paths.
fn is_own(request: &Arrived) -> bool {
    let names = fields::tokens(&request.fields, "cdn-loop");
    names.iter().any(|name| name.contains("role=cache"))
        || own_document(&request.target).is_some()
        || request.target.starts_with(b"/apis/authentication.k8s.io/")
        || request.target.starts_with(b"/apis/authorization.k8s.io/")
}

fn own_answer(request: &Arrived) -> Planned {
    let (status, body) = match own_document(&request.target) {
        Some(body) => (200, body),
        None => match review(request) {
            Some(review) => (201, review.to_string()),
            None => (404, "no".to_owned()),
        },
    };
    Planned {
        informational: Vec::new(),
        ending: Ending::Whole,
        status,
        fields: fields_of(&[("content-type", "application/json")]),
        body: body.into_bytes(),
        framing: AnswerFraming::Length,
        trailers: Vec::new(),
        is_early: false,
    }
}

fn own_document(target: &[u8]) -> Option<String> {
    let path = target.split(|b| *b == b'?').next()?;
    match String::from_utf8_lossy(path).as_ref() {
        "/readyz" | "/livez" | "/healthz" => Some("ok".to_owned()),
        path if path == format!("/apis/{GROUP}/v1") => Some(resources().to_string()),
        _ => None,
    }
}

/// Returns the backend's discovery document. It has no verb for reads, so nothing is
/// cached.
fn resources() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"),
        "resources": [{
            "name": "things", "singularName": "thing", "namespaced": false,
            "kind": "Thing", "verbs": ["create"],
        }],
    })
}

/// Answers a review: everybody may do everything, and one token is known.
fn review(request: &Arrived) -> Option<Value> {
    let mut review: Value = serde_json::from_slice(&request.content.body).ok()?;
    let status = match review["kind"].as_str()? {
        "SubjectAccessReview" => json!({ "allowed": true }),
        "TokenReview" if review["spec"]["token"] == TOKEN => json!({
            "authenticated": true,
            "user": { "username": "alice", "groups": ["readers", "system:authenticated"] },
        }),
        "TokenReview" => json!({ "authenticated": false }),
        _ => return None,
    };
    review["status"] = status;
    Some(review)
}

fn tls_config(serving: &Pair, speaks: Speaks) -> rustls::ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_file_iter(&serving.cert)
        .expect("certificate file")
        .collect::<Result<Vec<_>, _>>()
        .expect("certificate");
    let key = PrivateKeyDer::from_pem_file(&serving.key).expect("key file");
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("serving certificate");
    config.alpn_protocols = match speaks {
        Speaks::Both => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        _ => vec![b"http/1.1".to_vec()],
    };
    config
}
