//! Tests of the HTTP surface through a real connection.

mod bodies;
mod custom_resources;
mod history;

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
