//! Tests of streams on shared connections, against a server with adjustable
//! behaviour.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::long_running::{LongRunningBody, LongRunningError, Sending};
use super::request_body::RequestBody;
use super::{Credentials, Server, Settings, Upstream};
use crate::metrics::UpstreamMetrics;

const SOON: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
struct Manner {
    http2: bool,
    /// The most streams that the server allows on a connection.
    streams: u32,
}

struct Told {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// The number of connections that have ended.
    ended: Arc<AtomicUsize>,
    /// Refuse the next request unprocessed.
    refuse: Arc<AtomicBool>,
}

impl Told {
    async fn start(manner: Manner) -> Self {
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // `main` installs the same provider.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], PrivateKeyDer::from(key))
            .unwrap();
        config.alpn_protocols = match manner.http2 {
            true => vec![b"h2".to_vec()],
            false => vec![b"http/1.1".to_vec()],
        };
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let told = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            ended: Arc::default(),
            refuse: Arc::default(),
        };
        let (connections, ended) = (told.connections.clone(), told.ended.clone());
        let refuse = told.refuse.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (acceptor, ended, refuse) = (acceptor.clone(), ended.clone(), refuse.clone());
                tokio::spawn(async move {
                    let stream = acceptor.accept(tcp).await.unwrap();
                    if manner.http2 {
                        http2(stream, manner, &refuse).await;
                    } else {
                        http1(stream).await;
                    }
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        told
    }

    fn upstream(&self) -> Upstream {
        let url = format!("https://{}", self.address).parse().unwrap();
        let mut server = Server::from_files(url, None, None, None, &Credentials::Own).unwrap();
        server.own.accept_invalid_certs = true;
        server.forward.accept_invalid_certs = true;
        let settings = Settings {
            servers: vec![server],
            ..Settings::default()
        };
        Upstream::new(
            &settings,
            UpstreamMetrics::register(&prometheus::Registry::new()).unwrap(),
        )
        .unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

type Tls = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;

/// Answers `/NUMBER` with that many bytes and without an end.
async fn http2(stream: Tls, manner: Manner, refuse: &AtomicBool) {
    let connection = h2::server::Builder::new()
        .max_concurrent_streams(manner.streams)
        .handshake(stream);
    let mut connection = connection.await.unwrap();
    let mut open = Vec::new();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        if refuse.swap(false, Ordering::SeqCst) {
            respond.send_reset(h2::Reason::REFUSED_STREAM);
            continue;
        }
        let bytes = request.uri().path().trim_start_matches('/').parse();
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        let _sent = body.send_data(Bytes::from(vec![b'x'; bytes.unwrap()]), false);
        open.push(body);
    }
}

async fn http1(stream: Tls) {
    use hyper::service::service_fn;
    let service = service_fn(|_| async {
        let pending =
            futures::stream::pending::<Result<hyper::body::Frame<Bytes>, std::io::Error>>();
        Ok::<_, std::convert::Infallible>(Response::new(http_body_util::StreamBody::new(pending)))
    });
    let io = hyper_util::rt::TokioIo::new(stream);
    let _ended = hyper::server::conn::http1::Builder::new()
        .serve_connection(io, service)
        .await;
}

async fn ask(
    upstream: &Upstream,
    path: &str,
    sending: Sending,
) -> Result<Response<LongRunningBody>, LongRunningError> {
    let request = Request::get(path).body(()).unwrap();
    tokio::time::timeout(
        SOON,
        upstream.send_long_running(request, RequestBody::default(), sending),
    )
    .await
    .expect("an answer")
}

async fn open(upstream: &Upstream, path: &str, times: usize) -> Vec<LongRunningBody> {
    let asked = (0..times).map(|_| ask(upstream, path, Sending::Repeatable));
    let answers = futures::future::join_all(asked).await;
    answers
        .into_iter()
        .map(|a| a.unwrap().into_body())
        .collect()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_herd_of_streams_shares_connections() {
    for (streams, expected) in [(1000, 3), (50, 5)] {
        let told = Told::start(Manner {
            http2: true,
            streams,
        })
        .await;
        let upstream = told.upstream();
        let bodies = open(&upstream, "/1", 250).await;
        assert_eq!(told.connections(), expected, "{streams}");
        drop(bodies);
        // The slots are free again.
        let bodies = open(&upstream, "/1", 250).await;
        assert_eq!(told.connections(), expected, "{streams}");
        drop(bodies);
        let later = Instant::now() + Duration::from_secs(61);
        upstream.endpoints()[0].shared_connections.sweep(later);
        let ended = || told.ended.load(Ordering::SeqCst) == expected;
        until("idle connections are closed", ended).await;
    }
}

#[tokio::test]
async fn readers_who_do_not_read_leave_the_connection_to_others() {
    let told = Told::start(Manner {
        http2: true,
        streams: 1000,
    })
    .await;
    let upstream = told.upstream();
    let unread = open(&upstream, "/1000000", 99).await;
    let mut read = open(&upstream, "/1000000", 1).await.remove(0);
    assert_eq!(told.connections(), 1);
    let mut bytes = 0;
    while bytes < 1_000_000 {
        let frame = tokio::time::timeout(SOON, read.frame())
            .await
            .expect("more");
        bytes += frame.unwrap().unwrap().into_data().unwrap().len();
    }
    drop(unread);
}

#[tokio::test]
async fn what_was_refused_unseen_is_sent_again_whatever_it_is() {
    let told = Told::start(Manner {
        http2: true,
        streams: 1000,
    })
    .await;
    let upstream = told.upstream();
    let first = ask(&upstream, "/1", Sending::Once).await.unwrap();
    told.refuse.store(true, Ordering::SeqCst);
    let second = ask(&upstream, "/1", Sending::Once).await.unwrap();
    assert_eq!(
        (first.status().as_u16(), second.status().as_u16()),
        (200, 200)
    );
    assert!(upstream.any_healthy());
}

#[tokio::test]
async fn without_http2_each_has_a_connection() {
    let told = Told::start(Manner {
        http2: false,
        streams: 0,
    })
    .await;
    let upstream = told.upstream();
    let bodies = open(&upstream, "/1", 7).await;
    assert_eq!(told.connections(), 7);
    drop(bodies);
    until("they are closed", || told.ended.load(Ordering::SeqCst) == 7).await;
}

#[tokio::test]
async fn a_server_that_is_away_fails_all_who_wait_at_once() {
    // This server accepts connections and sends nothing.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    mute.set_nonblocking(true).unwrap();
    let address = mute.local_addr().unwrap();
    let mut server = {
        let url = format!("https://{address}").parse().unwrap();
        Server::from_files(url, None, None, None, &Credentials::Own).unwrap()
    };
    server.forward.accept_invalid_certs = true;
    let mut settings = Settings {
        servers: vec![server],
        ..Settings::default()
    };
    settings.timing.connect_timeout = Duration::from_millis(300);
    let upstream = Upstream::new(
        &settings,
        UpstreamMetrics::register(&prometheus::Registry::new()).unwrap(),
    )
    .unwrap();
    let asked = (0..50).map(|_| ask(&upstream, "/1", Sending::Repeatable));
    for answer in futures::future::join_all(asked).await {
        assert!(matches!(answer, Err(LongRunningError::Connect(_))));
    }
    // The first attempt began before the others waited, so they make one more.
    let connections = std::iter::from_fn(|| mute.accept().ok()).count();
    assert_eq!(connections, 2);
    assert!(!upstream.any_healthy());
}
