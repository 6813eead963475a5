//! Compares apifront's spans with kube-apiserver's.

use http::Method;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;

use super::world::{APIFRONT, KUBE_APISERVER, Parent, SOON, Who, World};
use crate::harness::apifront::Apifront;
use crate::harness::client::Answer;
use crate::harness::cluster::unique;
use crate::harness::collector::Collected;
use crate::harness::eventually;
use crate::harness::expect::DEBUG;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::objects::config_map;
use crate::harness::process::temporary_folder;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The attributes that both servers give a request's span.
const COMMON: [&str; 6] = [
    "http.request.method",
    "url.path",
    "http.response.status_code",
    "audit-id",
    "user_agent.original",
    "network.peer.address",
];

fn map(purpose: &str) -> String {
    format!("{MAPS}/{}", unique(purpose))
}

/// Returns all spans of a trace, once their requests have ended.
async fn trace(world: &World, parent: &Parent) -> Vec<Collected> {
    world.settle().await;
    world.collector.find(|span| span.trace_id() == parent.trace)
}

fn only(spans: &[Collected], service: &str, kind: SpanKind) -> Collected {
    let found: Vec<_> = spans.iter().filter(|s| s.is_of(service, kind)).collect();
    assert_eq!(found.len(), 1, "{service} {kind:?} in {spans:#?}");
    found[0].clone()
}

#[tokio::test]
async fn one_trace_goes_from_the_caller_through_apifront_to_kube_apiserver() {
    skip_under_oracle!("kube-apiserver has no spans of apifront");
    let world = World::shared();
    let admin = world.client(APIFRONT, Who::Admin);
    let created = config_map(&unique("traced"), json!({}), json!({ "a": "b" }));
    for (method, path, body, reason) in [
        (Method::POST, MAPS.to_owned(), created.to_string(), ""),
        // apifront forwards these as streams.
        (
            Method::GET,
            "/api/v1/namespaces/default/pods/none/log".to_owned(),
            String::new(),
            "",
        ),
        (
            Method::GET,
            format!("{MAPS}?watch=1&timeoutSeconds=1&unknownParameter=1"),
            String::new(),
            "unusual_request",
        ),
        (Method::DELETE, map("missing"), String::new(), ""),
    ] {
        let parent = Parent::new();
        let headers = [
            ("traceparent", &*parent.header("01")),
            ("tracestate", "vendor=1"),
            ("baggage", "key=value"),
            ("user-agent", "a test"),
            ("content-type", "application/json"),
        ];
        let answer = admin.send(method.clone(), &path, &headers, body).await;
        let spans = trace(&world, &parent).await;
        let server = only(&spans, APIFRONT, SpanKind::Server);
        let client = only(&spans, APIFRONT, SpanKind::Client);
        let upstream = only(&spans, KUBE_APISERVER, SpanKind::Server);
        assert_eq!(server.parent_id(), parent.span, "{path}");
        assert_eq!(client.parent_id(), server.span_id(), "{path}");
        assert_eq!(upstream.parent_id(), client.span_id(), "{path}");
        for span in [&server, &client, &upstream] {
            assert_eq!(span.span.trace_state, "vendor=1", "{path}");
        }

        assert_eq!(server.span.name, upstream.span.name);
        for key in COMMON {
            assert_eq!(
                server.attribute(key),
                upstream.attribute(key),
                "{key} {path}"
            );
        }
        let code = answer.status.as_u16().to_string();
        assert_eq!(client.attribute("http.response.status_code"), code);
        assert_eq!(client.span.name, format!("HTTP {method}"));
        let address = world.cluster.apiserver.address();
        assert_eq!(server.attribute("apifront.upstream"), address.to_string());
        assert_eq!(client.attribute("server.address"), address.ip().to_string());
        assert_eq!(client.attribute("server.port"), address.port().to_string());
        let cache = if reason.is_empty() { "" } else { "bypass" };
        assert_eq!(server.attribute("apifront.cache.result"), cache, "{path}");
        let found = server.attribute("apifront.cache.bypass_reason");
        assert_eq!(found, reason, "{path}");
        // The query may contain secrets, so it must not appear.
        let shown = format!("{server:?} {client:?}");
        assert!(!shown.contains("timeoutSeconds"), "{shown}");
    }
}

#[tokio::test]
async fn a_cached_answer_has_the_span_of_apifront_alone() {
    skip_under_oracle!("kube-apiserver has no spans of apifront");
    let world = World::shared();
    let admin = world.client(APIFRONT, Who::Admin);
    let name = unique("cached");
    let created = config_map(&name, json!({}), json!({}));
    admin.post(MAPS, &created).await.expect(201);
    let path = format!("{MAPS}/{name}");
    let cached = format!("{path}?resourceVersion=0");
    world.front.warm(&admin, &cached).await;
    let parent = Parent::new();
    let headers = [("traceparent", &*parent.header("01")), DEBUG];
    let answer = admin.send(Method::GET, &cached, &headers, "").await;
    assert!(answer.is_hit(), "{:?}", answer.headers);
    let spans = trace(&world, &parent).await;
    assert_eq!(spans.len(), 1, "{spans:#?}");
    let server = only(&spans, APIFRONT, SpanKind::Server);
    assert_eq!(server.parent_id(), parent.span);
    assert_eq!(
        server.span.name,
        "GET /api/v1/namespaces/{:namespace}/configmaps/{:name}"
    );
    assert_eq!(server.attribute("url.path"), path);
    assert_eq!(server.attribute("apifront.cache.result"), "hit");
    assert_eq!(server.attribute("apifront.upstream"), "");
    let bytes = answer.body.len().to_string();
    assert_eq!(server.attribute("http.response.body.size"), bytes);
    let (start, end) = (
        server.span.start_time_unix_nano,
        server.span.end_time_unix_nano,
    );
    assert!(start < end, "{start} {end}");
}

/// The part of a request's span that depends on the caller's headers.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    sampled: bool,
    in_callers_trace: bool,
    below_callers_span: bool,
    linked_to_callers_span: bool,
    name: String,
    code: String,
    trace_state: String,
}

impl Shape {
    fn from_spans(mut spans: Vec<Collected>, parent: &Parent) -> Self {
        assert!(spans.len() <= 1, "{spans:#?}");
        let Some(found) = spans.pop() else {
            return Self {
                sampled: false,
                in_callers_trace: false,
                below_callers_span: false,
                linked_to_callers_span: false,
                name: String::new(),
                code: String::new(),
                trace_state: String::new(),
            };
        };
        let callers = (parent.trace.clone(), parent.span.clone());
        Self {
            sampled: true,
            in_callers_trace: found.trace_id() == parent.trace,
            below_callers_span: found.parent_id() == parent.span,
            linked_to_callers_span: found.links().contains(&callers),
            name: found.span.name.clone(),
            code: found.attribute("http.response.status_code"),
            trace_state: found.span.trace_state.clone(),
        }
    }
}

/// Sends both servers the same requests of several callers with several parents, and
/// compares the existence of spans.
async fn compare_sampling(world: &World) {
    type Written = fn(&Parent) -> Option<String>;
    let written: [(&str, Written); 9] = [
        ("none", |_| None),
        ("sampled", |p| Some(p.header("01"))),
        ("unsampled", |p| Some(p.header("00"))),
        ("random", |p| Some(p.header("03"))),
        ("unknown flags", |p| Some(p.header("04"))),
        ("upper case", |p| Some(p.header("01").to_ascii_uppercase())),
        ("empty fifth field", |p| Some(p.header("01") + "-")),
        ("fifth field", |p| Some(p.header("01") + "-00")),
        ("future", |p| {
            Some(p.header("01").replacen("00", "cc", 1) + "-more")
        }),
    ];
    let everybody = [
        Who::Admin,
        Who::Root,
        Who::Monitor,
        Who::Tess,
        Who::AdminAsTess,
        Who::TessAsAdmin,
        Who::WrongToken,
    ];
    let mut asked = Vec::new();
    for who in everybody {
        let [direct, front] = [KUBE_APISERVER, APIFRONT].map(|s| world.client(s, who));
        for (what, write) in written {
            let parent = Parent::new();
            let text = write(&parent);
            let mut headers = vec![("tracestate", "vendor=1")];
            headers.extend(text.as_deref().map(|text| ("traceparent", text)));
            let paths = [map("asked"), map("asked")];
            let mut answers: Vec<Answer> = Vec::new();
            for (client, path) in [&direct, &front].into_iter().zip(&paths) {
                answers.push(client.send(Method::GET, path, &headers, "").await);
            }
            assert_eq!(answers[0].status, answers[1].status, "{who:?} {what}");
            asked.push((who, what, parent, paths));
        }
    }
    world.settle().await;
    let mut sampled = 0;
    for (who, what, parent, [direct, front]) in asked {
        let expected = Shape::from_spans(world.server_spans(KUBE_APISERVER, &direct), &parent);
        let got = Shape::from_spans(world.server_spans(APIFRONT, &front), &parent);
        assert_eq!(got, expected, "{who:?} {what}");
        sampled += usize::from(got.sampled);
    }
    assert!(sampled > 0, "nothing was compared");
}

#[tokio::test]
async fn with_a_rate_the_same_requests_are_sampled() {
    skip_under_oracle!("kube-apiserver has no spans of apifront");
    compare_sampling(&World::shared()).await;
}

#[tokio::test]
async fn without_a_rate_the_same_requests_are_sampled() {
    skip_under_oracle!("kube-apiserver has no spans of apifront");
    compare_sampling(&World::start(0).await).await;
}

/// In this mode the upstream authenticates apifront's own user, and its rights
/// decide about `traceparent`.
#[tokio::test]
async fn in_impersonate_mode_apifronts_user_decides_whether_upstreams_span_joins() {
    skip_under_oracle!("kube-apiserver has no spans of apifront");
    let world = World::shared();
    let cluster = &world.cluster;
    for (groups, joins) in [(&[][..], false), (&["system:monitoring"], true)] {
        let own = cluster.certificates.client("apifront", groups);
        let (url, ca) = (cluster.server_url(), Some(cluster.ca()));
        let folder = temporary_folder("impersonate");
        let own = kubeconfig::write(&folder, "own", &url, ca, Credential::Certificate(&own));
        let file = world.front.read_config()["observability"]["tracingConfigFile"].clone();
        let front = Apifront::start_directly(cluster, |config| {
            config["identity"] = json!({ "mode": "Impersonate" });
            config["upstream"] = json!({ "kubeconfig": own });
            config["observability"]["tracingConfigFile"] = file;
        })
        .await;
        let (parent, path) = (Parent::new(), map("impersonated"));
        let headers = [("traceparent", &*parent.header("01"))];
        let admin = front.admin_client();
        admin.send(Method::DELETE, &path, &headers, "").await;
        let upstream = world.server_span(KUBE_APISERVER, &path).await;
        front.stop().await;
        let spans = world.collector.find(|span| span.trace_id() == parent.trace);
        let client = only(&spans, APIFRONT, SpanKind::Client);
        let asked = (client.trace_id(), client.span_id());
        assert_eq!(upstream.trace_id() == parent.trace, joins, "{groups:?}");
        assert_eq!(upstream.parent_id() == asked.1, joins, "{groups:?}");
        assert_eq!(upstream.links().contains(&asked), !joins, "{groups:?}");
    }
}

#[tokio::test]
async fn the_span_of_a_watch_ends_with_the_watch() {
    skip_under_oracle!("kube-apiserver has no spans of apifront");
    let world = World::shared();
    let namespace = world.cluster.namespace("watched").await;
    let path = format!("/api/v1/namespaces/{namespace}/secrets");
    let watch = format!("{path}?watch=1&resourceVersion=0");
    let front = world.client(APIFRONT, Who::Admin);
    world
        .front
        .warm(&front, &format!("{path}?resourceVersion=0"))
        .await;
    let of_watch = |service| {
        let mut spans = world.server_spans(service, &path);
        spans.retain(|s| s.links().is_empty() && s.span.trace_state == "watch=1");
        spans
    };
    for service in [KUBE_APISERVER, APIFRONT] {
        let parent = Parent::new().header("01");
        let headers = [("traceparent", &*parent), ("tracestate", "watch=1")];
        let client = world.client(service, Who::Admin).separate();
        let open = client.open(&watch, &headers).await;
        world.settle().await;
        assert!(of_watch(service).is_empty(), "{service}: the watch is open");
        drop((open, client));
        eventually("the span of the watch", SOON, || async {
            !of_watch(service).is_empty()
        })
        .await;
    }
    let [expected, got] = [KUBE_APISERVER, APIFRONT].map(|service| of_watch(service).remove(0));
    assert_eq!(got.span.name, expected.span.name);
    for key in ["http.response.status_code", "http.request.method"] {
        assert_eq!(got.attribute(key), expected.attribute(key), "{key}");
    }
    assert_eq!(got.attribute("apifront.cache.result"), "hit");
    assert_eq!(got.attribute("apifront.stream.end"), "client_gone");
}
