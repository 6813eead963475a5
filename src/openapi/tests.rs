//! OpenAPI with an upstream and backends that answer as the test scripts them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apifront_upstream::{Credentials, OutlierDetection, Server as ApiServer, Settings, Timeouts};
use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubernetes_wire::api::GroupVersion;
use tokio::time::Instant;

use super::server::WAIT_FOR_BACKEND;
use super::*;
use crate::aggregation::SourceVersion;
use crate::documents::OwnDocuments;
use crate::metrics::Metrics;

#[derive(Clone)]
enum Mood {
    /// JSON by path. The hash of each document is the length of its text.
    Documents(BTreeMap<String, String>),
    Status(u16),
    Html,
    Hangs,
    /// A root of this many bytes.
    Huge(usize),
    /// A body that does not end.
    Endless,
}

struct Scripted {
    mood: Arc<Mutex<Mood>>,
    asked: Arc<AtomicUsize>,
    upstream: Arc<ArcSwap<Upstream>>,
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed_unsync()
}

impl Scripted {
    async fn start(mood: Mood) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mood = Arc::new(Mutex::new(mood));
        let asked = Arc::new(AtomicUsize::new(0));
        let (served, counted) = (mood.clone(), asked.clone());
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (served, counted) = (served.clone(), counted.clone());
                let service = service_fn(move |request| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let mood = served.lock().clone();
                    async move { Ok::<_, Infallible>(answer(mood, &request).await) }
                });
                let builder = hyper::server::conn::http1::Builder::new();
                tokio::spawn(builder.serve_connection(TokioIo::new(tcp), service));
            }
        });
        let server =
            ApiServer::from_files(url.parse().unwrap(), None, None, None, &Credentials::Own);
        let settings = Settings {
            servers: vec![server.unwrap()],
            timing: Timeouts::default(),
            group: 0,
            outliers: OutlierDetection::default(),
        };
        let upstream = Upstream::new(&settings, Metrics::new().unwrap().upstream).unwrap();
        Self {
            mood,
            asked,
            upstream: Arc::new(ArcSwap::from_pointee(upstream)),
        }
    }

    async fn with(documents: &[(&str, &str)]) -> Self {
        Self::start(documents_of(documents)).await
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn source(&self, name: &str, versions: &[&str]) -> Source {
        let version = |text: &&str| SourceVersion {
            group_version: GroupVersion::parse(text).unwrap(),
            group_priority_minimum: 1000,
            version_priority: 15,
        };
        Source {
            name: name.to_owned(),
            server: DocumentServer::Remote(self.upstream.clone()),
            versions: versions.iter().map(version).collect(),
        }
    }
}

fn documents_of(documents: &[(&str, &str)]) -> Mood {
    let texts = documents.iter();
    Mood::Documents(
        texts
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
    )
}

async fn answer(
    mood: Mood,
    request: &http::Request<hyper::body::Incoming>,
) -> http::Response<Body> {
    let path = request.uri().path();
    let documents = match mood {
        Mood::Documents(documents) => documents,
        Mood::Status(code) => {
            let mut response = http::Response::new(full("no"));
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            let elsewhere = HeaderValue::from_static("http://127.0.0.1:1/");
            response.headers_mut().insert(LOCATION, elsewhere);
            return response;
        }
        Mood::Html => {
            let mut response = http::Response::new(full("<html>"));
            let html = HeaderValue::from_static("text/html");
            response.headers_mut().insert(CONTENT_TYPE, html);
            return response;
        }
        Mood::Hangs => std::future::pending().await,
        Mood::Huge(bytes) => {
            let text = format!("{{\"paths\":{{}},\"x\":\"{}\"}}", "x".repeat(bytes));
            return http::Response::new(full(text));
        }
        Mood::Endless => {
            let spaces = || Ok(hyper::body::Frame::data(Bytes::from_static(&[b' '; 4096])));
            let frames = futures::stream::repeat_with(spaces);
            return http::Response::new(StreamBody::new(frames).boxed_unsync());
        }
    };
    let text = match path {
        "/openapi/v3" => {
            let v3 = documents.keys().any(|path| path.contains("v3"));
            v3.then(|| root_of(&documents))
        }
        path => documents.get(path).cloned(),
    };
    let Some(text) = text else {
        let mut response = http::Response::new(full(""));
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let protobuf = request.headers()[ACCEPT]
        .to_str()
        .unwrap()
        .contains("proto");
    let etag = format!("\"H{}\"", text.len());
    let mut response = http::Response::new(full(text));
    if request
        .headers()
        .get(IF_NONE_MATCH)
        .is_some_and(|e| *e == etag)
    {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = full("");
    }
    let kind = match (protobuf, path) {
        (false, _) => "application/json",
        (true, "/openapi/v2") => "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        (true, _) => "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(ETAG, etag.parse().unwrap());
    response
}

fn root_of(documents: &BTreeMap<String, String>) -> String {
    let keys = documents.iter().filter_map(|(path, text)| {
        let key = path.strip_prefix("/openapi/v3/")?;
        let url = format!("{path}?hash=H{}", text.len());
        Some((key.to_owned(), url))
    });
    String::from_utf8(root::write(keys.collect()).to_vec()).unwrap()
}

struct Room {
    openapi: Arc<OpenApi>,
    _running: JoinSet<()>,
}

impl Room {
    fn new(main: &Scripted, sources: Vec<Source>) -> Self {
        let metrics = OpenApiMetrics::register(&prometheus::Registry::new()).unwrap();
        let openapi = Arc::new(OpenApi::new(main.upstream.clone(), metrics));
        openapi.set_sources(sources);
        let mut running = JoinSet::new();
        running.spawn(openapi.clone().run());
        Self {
            openapi,
            _running: running,
        }
    }

    async fn ask(&self, target: &str, headers: &[(http::HeaderName, &str)]) -> Answered {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = headers.iter().map(|(n, v)| (n.clone(), v.parse().unwrap()));
        let headers: HeaderMap = headers.collect();
        let request = Request {
            method: &Method::GET,
            path,
            hash: query.strip_prefix("hash="),
            headers: &headers,
        };
        self.openapi.answer(&request).await
    }

    async fn reply(&self, target: &str) -> Reply {
        match self.ask(target, &[]).await {
            Answered::Reply(reply) => reply,
            other => panic!("{target}: {other:?}"),
        }
    }

    async fn text(&self, target: &str) -> String {
        let reply = self.reply(target).await;
        assert_eq!(reply.status, 200, "{target}");
        String::from_utf8(reply.body.to_vec()).unwrap()
    }

    /// Asks until the answer is as expected.
    async fn until(&self, target: &str, expected: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let text = self.text(target).await;
            if expected(&text) {
                return;
            }
            assert!(Instant::now() < deadline, "{target}: {text}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

const MAIN_V2: &str = r##"{"swagger":"2.0","paths":{"/api/v1/":{"get":{}},"/apis/a.io/v1/x":{"get":{"$ref":"#/definitions/A"}}},"definitions":{"A":{"type":"object"}}}"##;
const BACKEND_V2: &str = r##"{"swagger":"2.0","paths":{"/apis/b.io/":{},"/apis/b.io/v1/y":{"get":{"$ref":"#/definitions/A"}}},"definitions":{"A":{"type":"string"}}}"##;

async fn main_server() -> Scripted {
    Scripted::with(&[
        ("/openapi/v2", MAIN_V2),
        ("/openapi/v3/api/v1", r#"{"openapi":"core"}"#),
        ("/openapi/v3/apis/a.io/v1", r#"{"openapi":"a of main"}"#),
        ("/openapi/v3/apis/a.io", r#"{"openapi":"group a"}"#),
        ("/openapi/v3/version", r#"{"openapi":"version of main"}"#),
    ])
    .await
}

fn backend_documents() -> Mood {
    documents_of(&[
        ("/openapi/v2", BACKEND_V2),
        (
            "/openapi/v3/apis/a.io/v1",
            r#"{"openapi":"a of backend, wins"}"#,
        ),
        ("/openapi/v3/apis/b.io/v1", r#"{"openapi":"b"}"#),
        (
            "/openapi/v3/apis/b.io/v2",
            r#"{"openapi":"not registered"}"#,
        ),
        ("/openapi/v3/apis/b.io", r#"{"openapi":"group b"}"#),
        ("/openapi/v3/version", r#"{"openapi":"version of backend"}"#),
    ])
}

#[tokio::test]
async fn v3_of_upstream_and_a_backend() {
    let main = main_server().await;
    let backend = Scripted::start(backend_documents()).await;
    let room = Room::new(&main, vec![backend.source("ns/b", &["a.io/v1", "b.io/v1"])]);
    let root: serde_json::Value = serde_json::from_str(&room.text("/openapi/v3").await).unwrap();
    let keys: Vec<&String> = root["paths"].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "api/v1",
            "apis/a.io",
            "apis/a.io/v1",
            "apis/b.io",
            "apis/b.io/v1",
            "version"
        ]
    );
    for (key, text) in [
        ("api/v1", "core"),
        ("apis/a.io", "group a"),
        ("apis/a.io/v1", "a of backend, wins"),
        ("apis/b.io", "group b"),
        ("apis/b.io/v1", "b"),
        ("version", "version of main"),
    ] {
        let url = root["paths"][key]["serverRelativeURL"].as_str().unwrap();
        let reply = room.reply(url).await;
        assert_eq!(reply.body, format!("{{\"openapi\":\"{text}\"}}"), "{key}");
        let immutable = |value: &HeaderValue| value == "public, immutable";
        let mut said = reply.headers.get_all("cache-control").iter();
        assert!(said.any(immutable), "{key}");
        let reply = room.reply(&format!("/openapi/v3/{key}?hash=WRONG")).await;
        assert_eq!(reply.status, 301);
        assert_eq!(reply.headers["location"], url);
    }
    assert_eq!(room.reply("/openapi/v3/apis/b.io/v2").await.status, 404);
}

#[tokio::test]
async fn v2_of_upstream_and_a_backend() {
    let main = main_server().await;
    let backend = Scripted::start(backend_documents()).await;
    let room = Room::new(&main, vec![backend.source("ns/b", &["b.io/v1"])]);
    let reply = room.reply("/openapi/v2").await;
    assert_eq!(
        reply.body,
        r##"{"swagger":"2.0","paths":{"/api/v1/":{"get":{}},"/apis/a.io/v1/x":{"get":{"$ref":"#/definitions/A"}},"/apis/b.io/v1/y":{"get":{"$ref":"#/definitions/A_v2"}}},"definitions":{"A":{"type":"object"},"A_v2":{"type":"string"}}}"##
    );
    let etag = reply.headers[ETAG].to_str().unwrap().to_owned();
    let protobuf = accept::Version::V2.accept(accept::Encoding::Protobuf);
    for accept in ["application/json", protobuf] {
        let headers = [(ACCEPT, accept), (IF_NONE_MATCH, etag.as_str())];
        match room.ask("/openapi/v2", &headers).await {
            Answered::Reply(reply) => assert_eq!(reply.status, 304),
            other => panic!("{other:?}"),
        }
    }
    // The group version is the backend's now. Definitions that only upstream's
    // version used are gone.
    room.openapi
        .set_sources(vec![backend.source("ns/b", &["a.io/v1", "b.io/v1"])]);
    let text = room.text("/openapi/v2").await;
    assert!(!text.contains("/apis/a.io/"), "{text}");
    assert!(text.contains(r##"{"$ref":"#/definitions/A"}"##), "{text}");
    room.openapi.set_sources(Vec::new());
    assert_eq!(room.text("/openapi/v2").await, MAIN_V2);
}

/// Servers before Kubernetes 1.24 have only v2.
#[tokio::test]
async fn v3_of_a_backend_that_has_only_v2() {
    let main = main_server().await;
    let backend = Scripted::with(&[("/openapi/v2", BACKEND_V2)]).await;
    let room = Room::new(&main, vec![backend.source("ns/b", &["b.io/v1"])]);
    room.until("/openapi/v3", |text| text.contains("b.io/v1"))
        .await;
    let root: serde_json::Value = serde_json::from_str(&room.text("/openapi/v3").await).unwrap();
    let url = root["paths"]["apis/b.io/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    let text = room.text(url).await;
    assert!(text.contains(r#""schemas":{"A":"#), "{text}");
    let protobuf = accept::Version::V3.accept(accept::Encoding::Protobuf);
    match room.ask(url, &[(ACCEPT, protobuf)]).await {
        Answered::Reply(reply) => assert_eq!(reply.status, 406),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_disabled_is_gone() {
    let main = main_server().await;
    let backend = Scripted::start(backend_documents()).await;
    let room = Room::new(&main, vec![backend.source("ns/b", &["b.io/v1"])]);
    let off = [("a.io/v1", false), ("b.io/v1", false)].map(|(k, on)| (k.to_owned(), on));
    room.openapi
        .set_runtime_config(RuntimeConfig::parse(&off.into()).unwrap());
    for path in ["/openapi/v2", "/openapi/v3"] {
        let text = room.text(path).await;
        assert!(!text.contains("a.io") && !text.contains("b.io"), "{text}");
        assert!(text.contains("api/v1"), "{text}");
    }
    for key in ["apis/a.io", "apis/a.io/v1", "apis/b.io", "apis/b.io/v1"] {
        assert_eq!(room.reply(&format!("/openapi/v3/{key}")).await.status, 404);
    }
    room.openapi.set_runtime_config(RuntimeConfig::default());
    assert!(room.text("/openapi/v3").await.contains("apis/a.io/v1"));
}

#[tokio::test]
async fn hostile_backends_hurt_nobody_else() {
    for mood in [
        Mood::Status(401),
        Mood::Status(404),
        Mood::Status(500),
        Mood::Status(302),
        Mood::Html,
        Mood::Hangs,
        Mood::Huge(5 << 20),
        Mood::Endless,
    ] {
        let main = main_server().await;
        let hostile = Scripted::start(mood).await;
        let fine = Scripted::start(backend_documents()).await;
        let room = Room::new(
            &main,
            vec![
                hostile.source("ns/hostile", &["hostile.io/v1"]),
                fine.source("ns/b", &["b.io/v1"]),
            ],
        );
        let began = Instant::now();
        for path in ["/openapi/v3", "/openapi/v2"] {
            let text = room.text(path).await;
            assert!(
                text.contains("b.io/v1") && text.contains("a.io/v1"),
                "{text}"
            );
            assert!(!text.contains("hostile"), "{text}");
        }
        let took = began.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}");
        let mut waited = 0;
        for _ in 0..20 {
            let began = Instant::now();
            room.text("/openapi/v3").await;
            waited += usize::from(began.elapsed() >= WAIT_FOR_BACKEND);
        }
        assert!(waited <= 1, "{waited} answers waited for the backend");
    }
}

#[tokio::test]
async fn the_last_known_is_served_while_its_server_is_down() {
    let main = main_server().await;
    let backend = Scripted::start(backend_documents()).await;
    let room = Room::new(&main, vec![backend.source("ns/b", &["b.io/v1"])]);
    for path in ["/openapi/v3", "/openapi/v2"] {
        room.until(path, |text| text.contains("b.io/v1")).await;
    }
    let known = room.text("/openapi/v3/apis/b.io/v1").await;
    main.set(Mood::Status(503));
    backend.set(Mood::Html);
    // Each has failed twice when it gets its third request.
    let enough = [main.asked() + 3, backend.asked() + 3];
    for path in ["/openapi/v3", "/openapi/v2"] {
        room.until(path, |text| {
            assert!(text.contains("b.io/v1"), "{path}");
            main.asked() >= enough[0] && backend.asked() >= enough[1]
        })
        .await;
    }
    assert!(room.text("/openapi/v3").await.contains("b.io/v1"));
    assert!(room.text("/openapi/v2").await.contains("b.io/v1"));
    assert_eq!(room.text("/openapi/v3/apis/b.io/v1").await, known);
    // Only its owner could send a document that was never fetched.
    match room.ask("/openapi/v3/apis/b.io", &[]).await {
        Answered::Unavailable(_) => {}
        other => panic!("{other:?}"),
    }
    match room.ask("/openapi/v3/api/v1", &[]).await {
        Answered::Forward => {}
        other => panic!("{other:?}"),
    }
    backend.set(documents_of(&[(
        "/openapi/v3/apis/b.io/v1",
        r#"{"openapi":"new"}"#,
    )]));
    room.until("/openapi/v3/apis/b.io/v1", |text| text.contains("new"))
        .await;
}

#[tokio::test]
async fn an_own_api_is_described() {
    let main = main_server().await;
    let documents = OwnDocuments::new([("/openapi/v2", Bytes::from_static(BACKEND_V2.as_bytes()))]);
    let source = Source {
        name: "b.io".to_owned(),
        server: DocumentServer::Own(Arc::new(documents)),
        versions: vec![SourceVersion {
            group_version: GroupVersion::parse("b.io/v1").unwrap(),
            group_priority_minimum: 1000,
            version_priority: 15,
        }],
    };
    let room = Room::new(&main, vec![source.clone()]);
    let root: serde_json::Value = serde_json::from_str(&room.text("/openapi/v3").await).unwrap();
    let url = root["paths"]["apis/b.io/v1"]["serverRelativeURL"].as_str();
    let url = url.expect("a document of the version");
    assert!(room.text(url).await.contains(r#""schemas":{"A":"#));
    assert!(room.text("/openapi/v2").await.contains("/apis/b.io/v1/y"));
    // The same documents are the same server: what was made of them is kept.
    room.openapi.set_sources(vec![source]);
    assert!(room.text("/openapi/v3").await.contains(url));
    room.openapi.set_sources(Vec::new());
    assert_eq!(room.text("/openapi/v2").await, MAIN_V2);
}
