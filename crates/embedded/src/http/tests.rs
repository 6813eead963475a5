//! Tests of the HTTP surface through a real connection.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kubernetes_wire::representation::whole;
use serde_json::{Value, json};

use crate::{EmbeddedServer, Handle, Options};

struct Subject {
    handle: Handle,
    client: Client<HttpConnector, Full<Bytes>>,
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: &str = "application/merge-patch+json";

impl Subject {
    async fn start(options: Options) -> Self {
        let server = EmbeddedServer::with_options(options);
        let handle = server.start(([127, 0, 0, 1], 0).into()).await.unwrap();
        Self {
            handle,
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Value,
    ) -> Response<Incoming> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.handle.address()))
            .header("content-type", content_type)
            .body(Full::from(body))
            .unwrap();
        self.client.request(request).await.unwrap()
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> (StatusCode, String) {
        let kind = if method == Method::PATCH {
            MERGE
        } else {
            "application/json"
        };
        let response = self.send(method, path, kind, body).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn json(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let (status, text) = self.call(method, path, body).await;
        let value = serde_json::from_str(&text).unwrap_or(Value::Null);
        (status.as_u16(), value)
    }

    async fn create(&self, name: &str, data: Value) -> Value {
        let object = json!({"metadata": {"name": name, "labels": data}});
        let (status, made) = self.json(Method::POST, CONFIG_MAPS, object).await;
        assert_eq!(status, 201, "{made}");
        made
    }

    async fn watch(&self, path: &str) -> Events {
        let response = self
            .send(Method::GET, path, "application/json", Value::Null)
            .await;
        assert_eq!(response.status(), StatusCode::OK);
        Events {
            body: response.into_body(),
            buffer: Vec::new(),
        }
    }
}

struct Events {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Events {
    /// Returns the next line. `None` at the end of the stream.
    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=at).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame())
                .await
                .expect("no event in time")?;
            self.buffer
                .extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }

    async fn next(&mut self) -> Option<(String, String)> {
        let event: Value = serde_json::from_str(&self.line().await?).unwrap();
        let text = |pointer: &str| {
            event
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Some((text("/type"), text("/object/metadata/name")))
    }
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

fn event(kind: &str, name: &str) -> Option<(String, String)> {
    Some((kind.to_owned(), name.to_owned()))
}

#[tokio::test]
async fn objects_come_change_and_go() {
    let server = Subject::start(Options::default()).await;
    let made = server.create("a", json!({"z": "1", "a": "2"})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, text) = server.call(Method::GET, &path, Value::Null).await;
    assert_eq!(
        text,
        format!(
            "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"a\",\"namespace\":\"default\",\"uid\":{},\"resourceVersion\":{},\"creationTimestamp\":{},\"labels\":{{\"a\":\"2\",\"z\":\"1\"}}}}}}\n",
            made["metadata"]["uid"],
            made["metadata"]["resourceVersion"],
            made["metadata"]["creationTimestamp"]
        )
    );
    let mut stale = made.clone();
    let (status, patched) = server
        .json(Method::PATCH, &path, json!({"data": {"k": "v"}}))
        .await;
    assert_eq!((status, &patched["data"]["k"]), (200, &json!("v")));
    let (_, again) = server
        .json(Method::PATCH, &path, json!({"data": {"k": "v"}}))
        .await;
    assert_eq!(again, patched);

    stale["data"] = json!({"k": "w"});
    let (status, conflict) = server.json(Method::PUT, &path, stale.clone()).await;
    assert_eq!(status, 409);
    assert_eq!(
        conflict["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    stale["metadata"]["resourceVersion"] = version(&patched).into();
    assert_eq!(server.json(Method::PUT, &path, stale).await.0, 200);
    let (status, gone) = server.json(Method::DELETE, &path, Value::Null).await;
    assert_eq!((status, &gone["status"]), (200, &json!("Success")));
    assert_eq!(server.json(Method::GET, &path, Value::Null).await.0, 404);
}

#[tokio::test]
async fn finalizers_keep_an_object() {
    let server = Subject::start(Options::default()).await;
    let object = json!({"metadata": {"name": "a", "finalizers": ["x.y/z"]}});
    server.json(Method::POST, CONFIG_MAPS, object).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, marked) = server.json(Method::DELETE, &path, Value::Null).await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let without = json!({"metadata": {"finalizers": null}});
    assert_eq!(server.json(Method::PATCH, &path, without).await.0, 200);
    assert_eq!(server.json(Method::GET, &path, Value::Null).await.0, 404);
}

#[tokio::test]
async fn pages_come_from_one_snapshot() {
    let server = Subject::start(Options::default()).await;
    for name in ["a", "b", "c"] {
        server.create(name, json!({})).await;
    }
    let (_, first) = server
        .json(Method::GET, &format!("{CONFIG_MAPS}?limit=2"), Value::Null)
        .await;
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    server.create("d", json!({})).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = server
        .json(
            Method::GET,
            &format!("{CONFIG_MAPS}?limit=2&continue={token}"),
            Value::Null,
        )
        .await;
    assert_eq!(second["items"].as_array().unwrap().len(), 1);
    assert_eq!(second["items"][0]["metadata"]["name"], "c");
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["metadata"].get("continue"), None);
}

#[tokio::test]
async fn forgotten_history_is_410() {
    let options = Options {
        history_events: 2,
        ..Options::default()
    };
    let server = Subject::start(options).await;
    let mut made = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let object = server.create(name, json!({})).await;
        made.push(version(&object).parse::<u64>().unwrap());
    }
    // The creation of a is no longer remembered.
    let (before, remembered) = (made[0] - 1, made[1]);
    let mut events = server
        .watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={before}"))
        .await;
    assert_eq!(
        events.line().await.unwrap(),
        format!(
            r#"{{"type":"ERROR","object":{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"too old resource version: {before} ({remembered})","reason":"Expired","code":410}}}}"#
        )
    );
    assert_eq!(events.line().await, None);
    let token = format!(
        r#"{{"v":"meta.k8s.io/v1","rv":{},"start":"/a\u0000"}}"#,
        made[0]
    );
    let token = &URL_SAFE_NO_PAD.encode(token);
    let page = |token: &str| format!("{CONFIG_MAPS}?limit=1&continue={token}");
    let (status, expired) = server.json(Method::GET, &page(token), Value::Null).await;
    assert_eq!((status, &expired["reason"]), (410, &json!("Expired")));
    // The answer has a continue token, which gives up consistency.
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let (status, rest) = server.json(Method::GET, &page(token), Value::Null).await;
    assert_eq!(
        (status, &rest["items"][0]["metadata"]["name"]),
        (200, &json!("b"))
    );
    assert_eq!(version(&rest), made[3].to_string());
}

#[tokio::test]
async fn watches_start_where_they_are_told() {
    let server = Subject::start(Options::default()).await;
    let a = server.create("a", json!({"app": "x"})).await;
    let mut initial = server
        .watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true"))
        .await;
    assert_eq!(initial.next().await, event("ADDED", "a"));
    assert_eq!(
        initial.line().await.unwrap(),
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#,
            version(&a)
        )
    );
    let mut selected = server
        .watch(&format!(
            "{CONFIG_MAPS}?watch=1&labelSelector=app%3Dx&resourceVersion={}",
            version(&a)
        ))
        .await;
    let path = format!("{CONFIG_MAPS}/a");
    server
        .json(
            Method::PATCH,
            &path,
            json!({"metadata": {"labels": {"app": "y"}}}),
        )
        .await;
    assert_eq!(initial.next().await, event("MODIFIED", "a"));
    // The object left the selection: the event has the last matching state at
    // the new version.
    let left: Value = serde_json::from_str(&selected.line().await.unwrap()).unwrap();
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["app"], "x");
    let left: u64 = version(&left["object"]).parse().unwrap();
    assert_eq!(left, version(&a).parse::<u64>().unwrap() + 1);
    server
        .json(
            Method::PATCH,
            &path,
            json!({"metadata": {"labels": {"app": "x"}}}),
        )
        .await;
    assert_eq!(selected.next().await, event("ADDED", "a"));
    server.json(Method::DELETE, &path, Value::Null).await;
    assert_eq!(selected.next().await, event("DELETED", "a"));
}

#[tokio::test]
async fn bookmarks_tell_of_other_resources() {
    let options = Options {
        bookmark_period: Duration::from_millis(50),
        ..Options::default()
    };
    let server = Subject::start(options).await;
    let mut events = server
        .watch(
            "/api/v1/secrets?watch=1&resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds=2",
        )
        .await;
    let made = server.create("a", json!({})).await;
    assert_eq!(
        events.line().await.unwrap(),
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"Secret","apiVersion":"v1","metadata":{{"resourceVersion":"{}"}}}}}}"#,
            version(&made)
        )
    );
    assert_eq!(events.line().await, None, "timeoutSeconds ends it");
}

#[tokio::test]
async fn definitions_are_served_until_deleted() {
    let server = Subject::start(Options::default()).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
                {"name": "v1alpha1", "served": true, "storage": false, "deprecated": true},
            ]},
    });
    let (status, defined) = server.json(Method::POST, definitions, definition).await;
    assert_eq!(status, 201);
    // The definition was stored, then an APIService for each of its versions.
    let newest = version(&defined).parse::<u64>().unwrap() + 2;
    let (_, empty) = server
        .call(Method::GET, "/apis/example.com/v1/widgets", Value::Null)
        .await;
    assert_eq!(
        empty,
        format!(
            "{{\"apiVersion\":\"example.com/v1\",\"items\":[],\"kind\":\"WidgetList\",\"metadata\":{{\"continue\":\"\",\"resourceVersion\":\"{newest}\"}}}}\n"
        )
    );
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"size": 1}, "status": {"dropped": true}});
    let (status, made) = server.json(Method::POST, widgets, widget).await;
    assert_eq!((status, made.get("status")), (201, None));
    let (_, changed) = server
        .json(
            Method::PATCH,
            &format!("{widgets}/w/status"),
            json!({"status": {"a": 1}, "spec": {"size": 9}}),
        )
        .await;
    assert_eq!(
        (&changed["status"]["a"], &changed["spec"]["size"]),
        (&json!(1), &json!(1))
    );
    let old = server
        .send(
            Method::GET,
            "/apis/example.com/v1alpha1/namespaces/default/widgets/w",
            "",
            Value::Null,
        )
        .await;
    assert_eq!(
        old.headers()["warning"],
        "299 - \"example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget\""
    );
    let mut events = server.watch(&format!("{widgets}?watch=1")).await;
    assert_eq!(events.next().await, event("ADDED", "w"));
    server
        .json(
            Method::DELETE,
            &format!("{definitions}/widgets.example.com"),
            Value::Null,
        )
        .await;
    assert_eq!(events.next().await, event("DELETED", "w"));
    assert_eq!(events.next().await, None);
    let (status, _) = server.call(Method::GET, widgets, Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_deleted_namespace_takes_its_objects() {
    let server = Subject::start(Options::default()).await;
    let namespace = json!({"metadata": {"name": "n"}});
    server
        .json(Method::POST, "/api/v1/namespaces", namespace)
        .await;
    let maps = "/api/v1/namespaces/n/configmaps";
    server
        .json(Method::POST, maps, json!({"metadata": {"name": "plain"}}))
        .await;
    let kept = json!({"metadata": {"name": "kept", "finalizers": ["x.y/z"]}});
    server.json(Method::POST, maps, kept).await;
    let (_, marked) = server
        .json(Method::DELETE, "/api/v1/namespaces/n", Value::Null)
        .await;
    assert_eq!(marked["status"]["phase"], "Terminating");
    let (_, left) = server.json(Method::GET, maps, Value::Null).await;
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    let (status, refused) = server
        .json(Method::POST, maps, json!({"metadata": {"name": "late"}}))
        .await;
    assert_eq!((status, &refused["reason"]), (403, &json!("Forbidden")));
    let free = json!({"metadata": {"finalizers": []}});
    server
        .json(Method::PATCH, &format!("{maps}/kept"), free)
        .await;
    let (status, _) = server
        .json(Method::GET, "/api/v1/namespaces/n", Value::Null)
        .await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let server = Subject::start(Options::default()).await;
    let object = json!({"metadata": {"name": "big"}, "data": {"a": "x".repeat(3 << 20)}});
    let (status, body) = server.json(Method::POST, CONFIG_MAPS, object).await;
    assert_eq!(status, 413);
    assert_eq!(
        body["message"],
        "Request entity too large: limit is 3145728"
    );
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

#[tokio::test]
async fn pods_are_bound_and_evicted() {
    let server = Subject::start(Options::default()).await;
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["a", "b"] {
        server.json(Method::POST, pods, pod(name)).await;
    }
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    let path = format!("{pods}/a/binding");
    let (status, text) = server.call(Method::POST, &path, binding.clone()).await;
    assert_eq!(
        (status.as_u16(), text.as_str()),
        (
            201,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\",\"code\":201}\n"
        )
    );
    let (_, bound) = server
        .json(Method::GET, &format!("{pods}/a"), Value::Null)
        .await;
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["metadata"]["generation"], 1);
    assert_eq!(server.json(Method::POST, &path, binding).await.0, 409);

    let legacy = "/api/v1/namespaces/default/bindings";
    let binding = json!({"metadata": {"name": "b"}, "target": {"name": "n"}});
    assert_eq!(server.json(Method::POST, legacy, binding).await.0, 201);
    assert_eq!(server.json(Method::GET, legacy, Value::Null).await.0, 405);

    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": 0}});
    let path = format!("{pods}/a/eviction");
    assert_eq!(server.json(Method::POST, &path, eviction("x")).await.0, 400);
    let dry = format!("{path}?dryRun=All");
    assert_eq!(server.json(Method::POST, &dry, eviction("a")).await.0, 201);
    assert_eq!(server.json(Method::POST, &path, eviction("a")).await.0, 201);
    assert_eq!(server.json(Method::POST, &path, eviction("a")).await.0, 404);
}

#[tokio::test]
async fn foreground_deletion_marks_then_deletes() {
    let server = Subject::start(Options::default()).await;
    server.create("a", json!({})).await;
    let mut events = server.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(events.next().await, event("ADDED", "a"));
    let path = format!("{CONFIG_MAPS}/a?propagationPolicy=Foreground");
    let (status, marked) = server.json(Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, 200);
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert_eq!(events.next().await, event("MODIFIED", "a"));
    assert_eq!(events.next().await, event("DELETED", "a"));
    server.create("b", json!({})).await;
    let path = format!("{CONFIG_MAPS}/b?propagationPolicy=Background");
    let (_, gone) = server.json(Method::DELETE, &path, Value::Null).await;
    assert_eq!(gone["status"], "Success");
}

impl Subject {
    async fn raw(&self, path: &str, content_type: &str, body: &'static str) -> (u16, Value) {
        let request = Request::post(format!("http://{}{path}", self.handle.address()))
            .header("content-type", content_type)
            .body(Full::from(body))
            .unwrap();
        let response = self.client.request(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }
}

#[tokio::test]
async fn bodies_may_be_yaml() {
    let server = Subject::start(Options::default()).await;
    let yaml = "application/yaml";
    for (content_type, body, code, message) in [
        (
            yaml,
            "kind: ConfigMap\nmetadata:\n  name: a\ndata: {x: \"1\"}\n",
            201,
            "",
        ),
        // Only the first document is read, and the last of equal keys counts.
        (
            yaml,
            "metadata: {name: b}\ndata: {x: a, x: b}\n---\nmetadata: {name: c}\n",
            201,
            "",
        ),
        (yaml, "{\"metadata\": {\"name\": \"d\"}}", 201, ""),
        (yaml, "", 422, "name or generateName is required"),
        (yaml, "a: b: c", 400, "mapping values are not allowed"),
        (
            yaml,
            "- a",
            400,
            "cannot unmarshal array into Go value of type struct",
        ),
        (
            yaml,
            "metadata: {name: e, labels: {a: 1}}",
            400,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        ("text/yaml", "metadata: {name: f}", 415, ""),
    ] {
        let (status, answer) = server.raw(CONFIG_MAPS, content_type, body).await;
        assert_eq!(status, code, "{body}: {answer}");
        assert!(
            answer["message"]
                .as_str()
                .unwrap_or_default()
                .contains(message),
            "{answer}"
        );
    }
    let (_, b) = server
        .json(Method::GET, &format!("{CONFIG_MAPS}/b"), Value::Null)
        .await;
    assert_eq!(b["data"]["x"], "b");
}

#[tokio::test]
async fn custom_resources_follow_their_schema() {
    let server = Subject::start(Options::default()).await;
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "minimum": 0, "default": 3},
                    }},
                    "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                }}},
            }]},
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(
        server.json(Method::POST, definitions, definition).await.0,
        201
    );
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    let (status, refused) = server
        .json(Method::POST, widgets, widget(json!({"size": -1})))
        .await;
    assert_eq!(
        (status, refused["message"].as_str().unwrap()),
        (
            422,
            "Widget.example.com \"w\" is invalid: spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0"
        )
    );
    let strict = format!("{widgets}?fieldValidation=Strict");
    let unknown = widget(json!({"unknown": 1}));
    let (status, refused) = server.json(Method::POST, &strict, unknown.clone()).await;
    assert_eq!(
        (status, refused["message"].as_str().unwrap()),
        (
            400,
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.unknown\""
        )
    );
    let wrong = format!("{widgets}?fieldValidation=x");
    assert_eq!(
        server.json(Method::POST, &wrong, unknown.clone()).await.0,
        422
    );
    let warned = server
        .send(Method::POST, widgets, "application/json", unknown)
        .await;
    assert_eq!(warned.status(), 201);
    assert_eq!(
        warned.headers()["warning"],
        "299 - \"unknown field \\\"spec.unknown\\\"\""
    );
    let path = format!("{widgets}/w");
    let (_, made) = server.json(Method::GET, &path, Value::Null).await;
    assert_eq!(made["spec"], json!({"size": 3}));
    let open_api = "/openapi/v3/apis/example.com/v1";
    let (_, described) = server.json(Method::GET, open_api, Value::Null).await;
    let size = "/components/schemas/example.com.v1.Widget/properties/spec/properties/size/minimum";
    assert_eq!(described.pointer(size), Some(&json!(0)));
    for (path, patch, code) in [
        (path.clone(), json!({"spec": {"size": "x"}}), 422),
        (
            format!("{path}?fieldValidation=Strict"),
            json!({"spec": {"u": 1}}),
            422,
        ),
        (path.clone(), json!({"spec": {"size": 4}}), 200),
        (
            format!("{path}/status"),
            json!({"status": {"ready": 1}}),
            422,
        ),
        (
            format!("{path}/status"),
            json!({"status": {"ready": true}}),
            200,
        ),
    ] {
        let (status, answer) = server.json(Method::PATCH, &path, patch).await;
        assert_eq!(status, code, "{answer}");
    }
}

impl Subject {
    async fn bytes(&self, request: http::request::Builder, body: Bytes) -> (StatusCode, Bytes) {
        let request = request.body(Full::from(body)).unwrap();
        let response = self.client.request(request).await.unwrap();
        let status = response.status();
        let asked = response.headers()["content-type"].clone();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        if bytes.starts_with(b"k8s\0") {
            assert_eq!(asked, PROTOBUF);
        }
        (status, bytes)
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.handle.address()))
    }
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn plain(answer: &[u8]) -> Value {
    serde_json::from_slice(&whole::from_protobuf(answer).unwrap()).unwrap()
}

#[tokio::test]
async fn everything_built_in_is_spoken_in_protobuf() {
    let subject = Subject::start(Options::default()).await;
    let made = subject.create("a", json!({"x": "y"})).await;
    let object = format!("{CONFIG_MAPS}/a");
    let get = |path: &str, accept| {
        let request = subject.request(Method::GET, path).header("accept", accept);
        subject.bytes(request, Bytes::new())
    };

    let (status, one) = get(&object, PROTOBUF).await;
    assert_eq!((status.as_u16(), plain(&one)), (200, made.clone()));
    // The object that was read is written back; the answer has the same encoding.
    let request = subject
        .request(Method::PUT, &object)
        .header("content-type", PROTOBUF)
        .header("accept", PROTOBUF);
    let (status, put) = subject.bytes(request, one).await;
    assert_eq!(status, 200, "{put:?}");
    assert_eq!(plain(&put)["metadata"]["labels"], json!({"x": "y"}));

    let (_, list) = get(CONFIG_MAPS, PROTOBUF).await;
    let (_, same) = subject.json(Method::GET, CONFIG_MAPS, Value::Null).await;
    let listed = plain(&list);
    assert_eq!(listed["items"], same["items"]);
    assert_eq!(listed["metadata"], same["metadata"]);
    let (_, yaml) = get(&object, "application/yaml").await;
    assert!(
        yaml.starts_with(b"apiVersion: v1\nkind: ConfigMap\n"),
        "{yaml:?}"
    );

    let (status, missing) = get(&format!("{CONFIG_MAPS}/none"), PROTOBUF).await;
    assert_eq!(
        (status.as_u16(), &plain(&missing)["code"]),
        (404, &json!(404))
    );
    let (status, _) = get(
        &object,
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    )
    .await;
    assert_eq!(status, 406);

    let watch = format!(
        "{CONFIG_MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    );
    let (_, events) = get(&watch, PROTOBUF).await;
    let length = u32::from_be_bytes(events[..4].try_into().unwrap()) as usize;
    assert!(events[4..4 + length].starts_with(b"\x0a\x05ADDED\x12"));
    assert!(events.len() > 4 + length, "a bookmark, too");
}

#[tokio::test]
async fn bodies_that_are_no_protobuf_are_refused() {
    let subject = Subject::start(Options::default()).await;
    for body in [&b""[..], b"k8s\0", b"k8s\0\x0a\xff\xff\xff", b"{}"] {
        let request = subject
            .request(Method::POST, CONFIG_MAPS)
            .header("content-type", PROTOBUF);
        let (status, answer) = subject.bytes(request, Bytes::from_static(body)).await;
        assert_eq!(status, 400, "{answer:?}");
    }
}
