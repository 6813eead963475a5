//! The server takes bodies in JSON, YAML and protobuf, and refuses those that are too
//! large or no objects.

use super::*;

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
