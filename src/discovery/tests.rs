//! Discovery with an API server and backends that answer as the test scripts them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;

use apifront_upstream::{Credentials, Server as ApiServer, Settings, Timeouts};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use kubernetes_wire::negotiation::MediaType;
use tokio::time::Instant;

use super::everything::EVERYTHING;
use super::*;
use crate::documents::OwnDocuments;
use crate::metrics::Metrics;

/// A server's reply to requests for a path.
#[derive(Clone)]
enum Reply {
    Everything(String),
    Json(String),
    Html,
    Code(u16),
    /// The server never answers.
    Silence,
    /// A body of this many bytes.
    Endless,
}

struct Scripted {
    address: SocketAddr,
    replies: Arc<Mutex<HashMap<String, Reply>>>,
    /// The number of all requests, and of the requests that got a 304.
    asked: Arc<[AtomicUsize; 2]>,
}

impl Scripted {
    async fn start(replies: &[(&str, Reply)]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let this = Self {
            address: listener.local_addr().unwrap(),
            replies: Arc::default(),
            asked: Arc::default(),
        };
        for (path, reply) in replies {
            this.reply(path, reply.clone());
        }
        let (replies, asked) = (this.replies.clone(), this.asked.clone());
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (replies, asked) = (replies.clone(), asked.clone());
                let service = service_fn(move |request| {
                    let reply = replies.lock().get(key(&request).as_str()).cloned();
                    answer(request, reply, asked.clone())
                });
                let io = hyper_util::rt::TokioIo::new(tcp);
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(io, service),
                );
            }
        });
        this
    }

    fn reply(&self, path: &str, reply: Reply) {
        self.replies.lock().insert(path.to_owned(), reply);
    }

    fn asked(&self) -> [usize; 2] {
        let [all, unmodified] = &*self.asked;
        [all, unmodified].map(|count| count.load(Ordering::Relaxed))
    }

    fn upstream(&self) -> Arc<ArcSwap<Upstream>> {
        let url = format!("http://{}", self.address).parse().unwrap();
        let server = ApiServer::from_files(url, None, None, None, &Credentials::Own);
        let settings = Settings {
            servers: vec![server.unwrap()],
            timing: Timeouts::default(),
            ..Settings::default()
        };
        let upstream = Upstream::new(&settings, Metrics::new().unwrap().upstream);
        Arc::new(ArcSwap::from_pointee(upstream.unwrap()))
    }

    /// Returns the server as a backend that is registered for one version.
    fn source(&self, version: &str) -> Source {
        Source {
            name: "extensions/scripted".to_owned(),
            server: DocumentServer::Remote(self.upstream()),
            versions: vec![SourceVersion {
                group_version: GroupVersion::parse(version).unwrap(),
                group_priority_minimum: 2000,
                version_priority: 15,
            }],
        }
    }
}

/// Returns the path, after a `*` if the `APIGroupDiscoveryList` is requested.
fn key(request: &Request<hyper::body::Incoming>) -> String {
    let accept = request.headers().get(ACCEPT).map(|v| v.to_str().unwrap());
    let everything = accept.is_some_and(|a| a.contains("APIGroupDiscoveryList"));
    let star = if everything { "*" } else { "" };
    format!("{star}{}", request.uri().path())
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    reply: Option<Reply>,
    asked: Arc<[AtomicUsize; 2]>,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let [all, unmodified] = &*asked;
    all.fetch_add(1, Ordering::Relaxed);
    let build = |content_type: &str, body: Bytes| {
        let response = Response::builder().header(CONTENT_TYPE, content_type);
        response.body(Full::new(body)).unwrap()
    };
    let response = match reply {
        Some(Reply::Everything(body)) => {
            let etag = format!("\"{}\"", body.len());
            if request
                .headers()
                .get(IF_NONE_MATCH)
                .is_some_and(|v| *v == *etag)
            {
                unmodified.fetch_add(1, Ordering::Relaxed);
                let response = Response::builder().status(304);
                return Ok(response.body(Full::default()).unwrap());
            }
            let mut response = build(EVERYTHING, body.into());
            response.headers_mut().insert(ETAG, etag.parse().unwrap());
            response
        }
        Some(Reply::Json(body)) => build(JSON, body.into()),
        Some(Reply::Html) => build("text/html", "<html>".into()),
        Some(Reply::Code(code)) => {
            let response = Response::builder()
                .status(code)
                .header("location", "/elsewhere");
            response.body(Full::default()).unwrap()
        }
        Some(Reply::Silence) => std::future::pending().await,
        Some(Reply::Endless) => build(
            EVERYTHING,
            vec![b' '; polled_backend::LIMITS.most + 1].into(),
        ),
        None => {
            let response = Response::builder().status(404);
            response.body(Full::default()).unwrap()
        }
    };
    Ok(response)
}

fn version_json(version: &str, resource: &str, freshness: &str) -> String {
    format!(
        r#"{{"version":"{version}","resources":[{{"resource":"{resource}","responseKind":{{"group":"","version":"","kind":"Thing"}},"scope":"Namespaced","singularResource":"thing","verbs":["get","list"]}}],"freshness":"{freshness}"}}"#
    )
}

fn everything(groups: &[(&str, &str)]) -> String {
    let groups: Vec<String> = groups
        .iter()
        .map(|(name, version)| {
            format!(r#"{{"metadata":{{"name":"{name}"}},"versions":[{version}]}}"#)
        })
        .collect();
    format!(
        "{{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{{}},\"items\":[{}]}}\n",
        groups.join(",")
    )
}

async fn api_server() -> Scripted {
    let document = everything(&[
        ("apps", &version_json("v1", "deployments", "Current")),
        ("example.com", &version_json("v1", "widgets", "Current")),
    ]);
    let services = r#"{"items":[{"spec":{"group":"apps","version":"v1","groupPriorityMinimum":17800,"versionPriority":15}}]}"#;
    Scripted::start(&[
        ("*/apis", Reply::Everything(document)),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            Reply::Json(services.to_owned()),
        ),
    ])
    .await
}

fn discovery(server: &Scripted) -> Discovery {
    let metrics = Metrics::new().unwrap();
    let metrics = DiscoveryMetrics::register(&metrics.registry).unwrap();
    Discovery::new(server.upstream(), metrics)
}

async fn text(discovery: &Discovery) -> String {
    match discovery
        .find(&DiscoveryPath::Apis, Some(Aggregated::V2))
        .await
    {
        Found::Document(rendition) => {
            let body = rendition.body(MediaType::Json, false).unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        }
        _ => "none".to_owned(),
    }
}

async fn eventually(discovery: &Discovery, what: &str) {
    let within = Duration::from_secs(60);
    let shown = async {
        while !text(discovery).await.contains(what) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(within, shown).await;
    assert!(ended.is_ok(), "no {what} in {}", text(discovery).await);
}

fn things() -> GroupVersionResource {
    GroupVersionResource::new("things.io", "v1", "things")
}

#[tokio::test]
async fn one_question_is_asked_for_all_who_wait() {
    let server = api_server().await;
    let discovery = discovery(&server);
    let all: Vec<String> = futures::future::join_all((0..50).map(|_| text(&discovery))).await;
    assert!(all.iter().all(|t| t.contains("deployments")));
    // Callers who came after the first request began wait for a second one.
    let [asked, _] = server.asked();
    assert!(asked <= 2, "{asked}");
    text(&discovery).await;
    assert_eq!(server.asked(), [asked + 1, asked]);
    let facts = discovery.resource(&GroupVersionResource::new("apps", "v1", "deployments"));
    assert_eq!(facts.unwrap().verbs, ["get", "list"]);
    assert_eq!(discovery.resource(&things()), None);
}

#[tokio::test]
async fn without_a_document_upstream_answers_and_a_lost_one_stays() {
    let server = Scripted::start(&[]).await;
    let discovery = discovery(&server);
    assert_eq!(text(&discovery).await, "none");
    let document = everything(&[("apps", &version_json("v1", "deployments", "Current"))]);
    server.reply("*/apis", Reply::Everything(document));
    assert!(text(&discovery).await.contains("deployments"));
    server.reply("*/apis", Reply::Code(500));
    for _ in 0..3 {
        assert!(text(&discovery).await.contains("deployments"));
    }
    // The server itself says that it has no document.
    server.reply("*/apis", Reply::Code(404));
    let within = Duration::from_secs(10);
    let forgotten = async {
        while text(&discovery).await != "none" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(within, forgotten).await.is_ok());
}

#[tokio::test]
async fn a_silent_api_server_is_waited_for_once() {
    let server = api_server().await;
    let discovery = discovery(&server);
    text(&discovery).await;
    server.reply("*/apis", Reply::Silence);
    let began = Instant::now();
    assert!(text(&discovery).await.contains("deployments"));
    let one_wait = began.elapsed();
    assert!(one_wait < remote_document::DOCUMENT_TIMEOUT, "{one_wait:?}");
    let began = Instant::now();
    for _ in 0..20 {
        assert!(text(&discovery).await.contains("deployments"));
    }
    let twenty = began.elapsed();
    assert!(twenty < one_wait * 10, "{twenty:?} after {one_wait:?}");
}

#[tokio::test]
async fn a_backends_groups_come_stay_and_go() {
    let server = api_server().await;
    let discovery = discovery(&server);
    let backend = Scripted::start(&[(
        "*/apis",
        Reply::Everything(everything(&[
            ("things.io", &version_json("v1", "things", "")),
            ("other.io", &version_json("v1", "others", "")),
        ])),
    )])
    .await;
    let source = backend.source("things.io/v1");
    discovery.set_sources(vec![source.clone()]);
    let ours = format!(
        r#"{{"metadata":{{"name":"things.io"}},"versions":[{}]}}"#,
        version_json("v1", "things", "Current")
    );
    eventually(&discovery, &ours).await;
    let shown = text(&discovery).await;
    // The backend's group comes after apps and before the group with the lowest
    // priority. It has only its registered version.
    let place = |name: &str| shown.find(&format!("\"name\":\"{name}\""));
    assert!(place("apps") < place("things.io") && place("things.io") < place("example.com"));
    assert_eq!(place("other.io"), None);
    assert!(discovery.resource(&things()).unwrap().namespaced);

    // A new registration while the backend does not answer keeps the known
    // entries.
    backend.reply("*/apis", Reply::Silence);
    let mut again = source.clone();
    again.versions[0].version_priority = 16;
    discovery.set_sources(vec![again]);
    eventually(&discovery, &ours).await;
    discovery.set_sources(Vec::new());
    assert!(!text(&discovery).await.contains("things.io"));
}

#[tokio::test]
async fn backends_without_the_document_are_asked_for_their_version() {
    let server = api_server().await;
    let list = r#"{"kind":"APIResourceList","groupVersion":"things.io/v1","resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list"]}]}"#;
    for reply in [
        Reply::Html,
        Reply::Code(404),
        Reply::Code(401),
        Reply::Code(302),
    ] {
        let backend = Scripted::start(&[
            ("*/apis", reply),
            ("/apis/things.io/v1", Reply::Json(list.to_owned())),
        ])
        .await;
        let discovery = discovery(&server);
        discovery.set_sources(vec![backend.source("things.io/v1")]);
        eventually(&discovery, &version_json("v1", "things", "Current")).await;
        backend.reply("/apis/things.io/v1", Reply::Html);
    }
}

#[tokio::test]
async fn backends_that_fail_are_stale_and_delay_nobody() {
    let server = api_server().await;
    for reply in [
        Reply::Code(503),
        Reply::Endless,
        Reply::Html,
        Reply::Silence,
    ] {
        let backend = Scripted::start(&[("*/apis", reply)]).await;
        let discovery = discovery(&server);
        text(&discovery).await;
        discovery.set_sources(vec![backend.source("things.io/v1")]);
        let began = Instant::now();
        for _ in 0..20 {
            assert!(text(&discovery).await.contains("deployments"));
        }
        // A single wait for the backend would take longer.
        assert!(began.elapsed() < remote_document::DOCUMENT_TIMEOUT);
        eventually(&discovery, r#"{"version":"v1","freshness":"Stale"}"#).await;
    }
}

#[tokio::test]
async fn what_is_hidden_is_gone_and_who_waits_for_it_hears() {
    let server = api_server().await;
    let discovery = discovery(&server);
    let widgets = GroupVersionResource::new("example.com", "v1", "widgets");
    text(&discovery).await;
    assert!(discovery.resource(&widgets).is_some());
    let hidden = tokio::spawn(discovery.until_hidden(widgets.clone()));
    let settings = [("example.com/v1/widgets".to_owned(), false)];
    let config = RuntimeConfig::parse(&settings.into_iter().collect()).unwrap();
    discovery.set_runtime_config(config);
    hidden.await.unwrap();
    let version = widgets.group_version();
    assert!(!text(&discovery).await.contains("example.com"));
    assert_eq!(discovery.hidden(&version), Some(Missing::Page));
    assert!(discovery.resource(&widgets).is_none());
    discovery.set_runtime_config(RuntimeConfig::default());
    assert!(text(&discovery).await.contains("example.com"));
    assert_eq!(discovery.hidden(&version), None);
}

#[tokio::test]
async fn another_api_server_is_another_document() {
    let server = api_server().await;
    let upstream = server.upstream();
    let metrics = Metrics::new().unwrap();
    let metrics = DiscoveryMetrics::register(&metrics.registry).unwrap();
    let discovery = Discovery::new(upstream.clone(), metrics);
    assert!(text(&discovery).await.contains("deployments"));
    let document = everything(&[("new.io", &version_json("v1", "news", "Current"))]);
    let other = Scripted::start(&[("*/apis", Reply::Everything(document))]).await;
    upstream.store(other.upstream().load_full());
    discovery.upstream_replaced();
    assert!(text(&discovery).await.contains("new.io"));
}

#[tokio::test]
async fn the_configuration_moves_what_upstream_serves() {
    let server = api_server().await;
    let discovery = discovery(&server);
    let as_it_is = text(&discovery).await;
    let local = |version: &str| SourceVersion {
        group_version: GroupVersion::parse(version).unwrap(),
        group_priority_minimum: 20_000,
        version_priority: 1,
    };
    discovery.set_local(vec![local("example.com/v1"), local("gone.io/v1")]);
    let moved = text(&discovery).await;
    let place = |name: &str| moved.find(&format!("\"name\":\"{name}\""));
    assert!(place("example.com") < place("apps"), "{moved}");
    assert_eq!(place("gone.io"), None);
    assert_eq!(moved.len(), as_it_is.len());
    discovery.set_local(Vec::new());
    assert_eq!(text(&discovery).await, as_it_is);
}

#[tokio::test]
async fn upstream_tells_whether_it_serves_v2beta1() {
    // This server answers with v2, whatever is asked.
    let newer = discovery(&api_server().await);
    let served = newer.serves_v2beta1(&DiscoveryPath::Apis).await;
    assert_eq!(served, Some(false));
    let down = Scripted::start(&[("*/apis", Reply::Code(503))]).await;
    let down = discovery(&down);
    assert_eq!(down.serves_v2beta1(&DiscoveryPath::Apis).await, None);
}

fn own_source() -> Source {
    let list = r#"{"kind":"APIResourceList","groupVersion":"own.io/v1","resources":[{"name":"answers","singularName":"answer","namespaced":false,"kind":"Answer","verbs":["create"]}]}"#;
    let documents = OwnDocuments::new([("/apis/own.io/v1", Bytes::from_static(list.as_bytes()))]);
    Source {
        name: "own.io".to_owned(),
        server: DocumentServer::Own(Arc::new(documents)),
        versions: vec![SourceVersion {
            group_version: GroupVersion::parse("own.io/v1").unwrap(),
            group_priority_minimum: 1000,
            version_priority: 15,
        }],
    }
}

#[tokio::test]
async fn an_own_api_is_there_at_once() {
    let groups = "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[]}\n";
    let server = api_server().await;
    server.reply("/apis", Reply::Json(groups.to_owned()));
    let discovery = discovery(&server);
    let before = text(&discovery).await;
    discovery.set_sources(vec![own_source()]);
    let shown = text(&discovery).await;
    let entry = r#"{"metadata":{"name":"own.io"},"versions":[{"version":"v1","resources":[{"resource":"answers","responseKind":{"group":"","version":"","kind":"Answer"},"scope":"Cluster","singularResource":"answer","verbs":["create"]}],"freshness":"Current"}]}"#;
    assert!(shown.contains(entry), "{shown}");
    for (path, expected) in [
        (
            DiscoveryPath::Group("own.io".to_owned()),
            r#""kind":"APIGroup""#,
        ),
        (
            DiscoveryPath::Version(GroupVersion::parse("own.io/v1").unwrap()),
            r#""groupVersion":"own.io/v1""#,
        ),
    ] {
        assert!(!discovery.is_upstreams(&path));
        let Found::Document(document) = discovery.find(&path, None).await else {
            panic!("{path:?} is not answered here");
        };
        let body = document.body(MediaType::Json, false).unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains(expected), "{body}");
    }
    discovery.set_sources(Vec::new());
    assert_eq!(text(&discovery).await, before);
}

#[tokio::test]
async fn a_version_of_upstreams_is_not_hidden_silently() {
    let others = version_json("v1", "others", "Current");
    let server = Scripted::start(&[("*/apis", Reply::Everything(everything(&[])))]).await;
    let discovery = discovery(&server);
    discovery.set_sources(vec![own_source()]);
    text(&discovery).await;
    let is_told = || discovery.told_hidden.load(Ordering::Relaxed);
    assert!(!is_told());
    let document = everything(&[("own.io", &others)]);
    server.reply("*/apis", Reply::Everything(document));
    let shown = text(&discovery).await;
    assert!(shown.contains("answers") && !shown.contains("others"));
    assert!(is_told());
}

#[tokio::test]
async fn an_own_api_can_be_hidden() {
    let server = api_server().await;
    let discovery = discovery(&server);
    discovery.set_sources(vec![own_source()]);
    let settings = [("own.io/v1".to_owned(), false)];
    discovery.set_runtime_config(RuntimeConfig::parse(&settings.into()).unwrap());
    assert!(!text(&discovery).await.contains("own.io"));
    let version = GroupVersion::parse("own.io/v1").unwrap();
    assert_eq!(discovery.hidden(&version), Some(Missing::Page));
}
