//! Watches over WebSocket come from the cache, with kube-apiserver's bytes.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::join_all;

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::objects;
use crate::harness::raw::RawConnection;
use crate::harness::sample::{GROUP, NAMESPACE};

/// The tries until two answers are equal: an age in a Table may tick between them.
const TRIES: usize = 4;
/// A time longer than the watches of these tests last.
const END: Duration = Duration::from_secs(8);

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// Returns a valid handshake for `path`. The headers in `changes` are replaced, or
/// left out if empty.
pub fn handshake(path: &str, changes: &[(&str, &str)]) -> String {
    let mut headers = vec![
        ("Host", "localhost"),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Key", KEY),
        ("Sec-WebSocket-Version", "13"),
        ("Origin", "http://localhost"),
        ("Audit-ID", "same"),
    ];
    for (name, value) in changes {
        headers.retain(|(n, _)| n != name);
        if !value.is_empty() {
            headers.push((name, value));
        }
    }
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("GET {path} HTTP/1.1\r\n{headers}\r\n")
}

pub async fn open(client: &Client, request: &str) -> RawConnection {
    let mut connection = client.raw().await.expect("a connection");
    connection.write(request.as_bytes()).await.expect("written");
    connection
}

async fn conversation(client: &Client, request: &str) -> Vec<u8> {
    let mut connection = open(client, request).await;
    connection.read_reply(END).await
}

/// Returns a client's frame, masked with zeros so that it is readable. Its length
/// must fit into a byte.
fn client_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("short");
    assert!(length < 126);
    [&[first, 0x80 | length, 0, 0, 0, 0], payload].concat()
}

/// Returns the meaning of an answer to its receiver, independent of proxies: the
/// status, the meaningful headers, and the body.
fn meaning(answer: &[u8]) -> (String, Vec<String>, Vec<u8>) {
    let at = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let (head, body) = answer.split_at(at.map_or(answer.len(), |at| at + 4));
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lines = head.lines().map(str::to_owned);
    let status = lines.next().unwrap_or_default();
    let switched = status.contains(" 101 ");
    let hop = ["connection: ", "transfer-encoding: ", "content-length: "];
    let mut headers: Vec<_> = lines
        .filter(|l| !l.is_empty() && !l.starts_with("date: "))
        .filter(|l| switched || !hop.iter().any(|h| l.starts_with(h)))
        .collect();
    headers.sort();
    let body = if head.contains("\r\ntransfer-encoding: chunked") {
        dechunked(body)
    } else {
        body.to_vec()
    };
    (status, headers, body)
}

fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = std::str::from_utf8(&rest[..line]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let from = line + 2;
        body.extend_from_slice(&rest[from..from + size]);
        rest = &rest[from + size + 2..];
    }
    body
}

/// Returns both servers' answers to the same request.
async fn both(path: &str, changes: &[(&str, &str)]) -> (Vec<u8>, Vec<u8>) {
    let request = handshake(path, changes);
    let front = Apifront::quiet().admin_client();
    let direct = Cluster::quiet().admin_client();
    tokio::join!(
        conversation(&direct, &request),
        conversation(&front, &request)
    )
}

/// Fails unless the answers are equal to the byte, as they must be from the cache.
async fn assert_same(path: &str, changes: &[(&str, &str)]) {
    let text = |said: &[u8]| String::from_utf8_lossy(said).into_owned();
    let mut answers = both(path, changes).await;
    for _ in 1..TRIES {
        if answers.0 == answers.1 {
            break;
        }
        answers = both(path, changes).await;
    }
    let (direct, front) = answers;
    assert_eq!(text(&direct), text(&front), "{path} {changes:?}");
    assert!(front.starts_with(b"HTTP/1.1 101 "), "{}", text(&front));
}

/// Fails unless forwarded answers are equal except for connection headers.
async fn assert_alike(path: &str, changes: &[(&str, &str)]) {
    let (direct, front) = both(path, changes).await;
    assert_eq!(meaning(&direct), meaning(&front), "{path} {changes:?}");
}

/// Does the same as [`assert_same`] for each of these changes concurrently: most of
/// them wait for the end of a connection.
async fn all_same(path: &str, changes: &[(&str, &str)]) {
    join_all(changes.chunks(1).map(|change| assert_same(path, change))).await;
}

/// Does the same as [`assert_alike`] for each of these changes concurrently.
async fn all_alike(path: &str, changes: &[(&str, &str)]) {
    join_all(changes.chunks(1).map(|change| assert_alike(path, change))).await;
}

fn watch(path: &str) -> String {
    format!("{path}?watch=1&resourceVersion=0&timeoutSeconds=1")
}

/// Reads until the cache answers, since forwarded answers prove nothing here.
async fn warm(path: &str) {
    let front = Apifront::quiet();
    let list = format!("{path}?resourceVersion=0");
    front.warm(&front.admin_client(), &list).await;
}

#[tokio::test]
async fn frames_and_headers_are_those_of_kube_apiserver() {
    for path in [
        "/api/v1/namespaces".to_owned(),
        format!("/api/v1/namespaces/{NAMESPACE}/pods"),
        format!("/apis/{GROUP}/v1/widgets"),
    ] {
        warm(&path).await;
        let path = watch(&path);
        let as_text = [
            "",
            "application/json",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        ];
        // Protobuf makes binary frames, and YAML has no frames.
        let others = ["application/vnd.kubernetes.protobuf", "application/yaml"];
        let as_text = as_text.map(|accept| ("Accept", accept));
        let others = others.map(|accept| ("Accept", accept));
        tokio::join!(all_same(&path, &as_text), all_alike(&path, &others));
    }
}

#[tokio::test]
async fn legacy_paths_too() {
    warm("/api/v1/namespaces").await;
    let paths = [
        "/api/v1/watch/namespaces?timeoutSeconds=1",
        "/api/v1/watch/namespaces/default?timeoutSeconds=1",
        "/api/v1/watch/namespaces/default?resourceVersion=0&timeoutSeconds=1&allowWatchBookmarks=1",
    ];
    join_all(paths.map(|path| assert_same(path, &[]))).await;
}

#[tokio::test]
async fn they_come_from_the_cache() {
    skip_under_oracle!("kube-apiserver does not say what came from its cache");
    let path = "/api/v1/namespaces";
    warm(path).await;
    let front = Apifront::quiet();
    let watchers = [
        ("resource", "namespaces"),
        ("verb", "watch"),
        ("result", "hit"),
    ];
    let before = front
        .metric("apifront_cache_requests_total", &watchers)
        .await;
    let request = handshake(&watch(path), &[("X-Apifront-Debug", "cache")]);
    let said = conversation(&front.admin_client(), &request).await;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("X-Apifront-Cache: hit"), "{said}");
    let after = front
        .metric("apifront_cache_requests_total", &watchers)
        .await;
    assert!(after > before, "{before} {after}");
}

#[tokio::test]
async fn one_protocol_is_echoed() {
    warm("/api/v1/namespaces").await;
    let path = watch("/api/v1/namespaces");
    let named = |offer| ("Sec-WebSocket-Protocol", offer);
    let (one, several) = (["v1.watch.example", "\"", "a b"], ["a, b", "a,", ","]);
    let (one, several) = (one.map(named), several.map(named));
    tokio::join!(all_same(&path, &one), all_alike(&path, &several));
}

#[tokio::test]
async fn bad_handshakes_are_refused_as_by_kube_apiserver() {
    warm("/api/v1/namespaces").await;
    let path = watch("/api/v1/namespaces");
    let refused = [
        ("Sec-WebSocket-Version", ""),
        ("Sec-WebSocket-Version", "8"),
        ("Sec-WebSocket-Version", "13, 8"),
        ("Sec-WebSocket-Key", ""),
        ("Origin", ""),
        ("Origin", "null"),
        ("Origin", "https://user@elsewhere.example/path"),
        ("Origin", "::"),
    ];
    let accepted = [
        ("Sec-WebSocket-Key", "short"),
        ("Origin", "https://elsewhere.example:8443"),
        ("Connection", "keep-alive, Upgrade"),
        ("Connection", "keep-alive, upgrade"),
        ("Upgrade", "WebSocket"),
    ];
    tokio::join!(all_alike(&path, &refused), all_same(&path, &accepted));
}

#[tokio::test]
async fn other_requests_with_an_upgrade() {
    warm("/api/v1/namespaces").await;
    let paths = [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/no-such-namespace?resourceVersion=0",
        "/api/v1/namespaces?watch=1&resourceVersion=abc",
        "/api/v1/namespaces?watch=1&resourceVersion=0&fieldSelector=spec.nothing%3Dx",
    ];
    join_all(paths.map(|path| assert_alike(path, &[]))).await;
}

/// A browser cannot set headers. It sends its token as a protocol, as Kubernetes
/// allows.
#[tokio::test]
async fn a_token_among_the_protocols_says_who_is_asking() {
    let cluster = Cluster::shared();
    let front = Apifront::shared();
    let admin = cluster.admin_client();
    let namespace = cluster.namespace("browser").await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let account = serde_json::json!({ "metadata": { "name": "browser" } });
    admin.post(&accounts, &account).await.expect(201);
    let role = objects::role("reader", &[""], &["configmaps"], &["list", "watch"]);
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    admin
        .post(&format!("{rbac}/roles"), &role)
        .await
        .expect(201);
    let mut binding = objects::role_binding("reader", "reader", "ServiceAccount", "browser");
    binding["subjects"][0]["namespace"] = namespace.clone().into();
    if let Some(subject) = binding["subjects"][0].as_object_mut() {
        subject.remove("apiGroup");
    }
    let path = format!("{rbac}/rolebindings");
    admin.post(&path, &binding).await.expect(201);
    let asked = serde_json::json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
    });
    let path = format!("{accounts}/browser/token");
    let token = admin.post(&path, &asked).await.expect(201);
    let token = token["status"]["token"].as_str().expect("a token");
    let token = URL_SAFE_NO_PAD.encode(token);
    let prefix = "base64url.bearer.authorization.k8s.io.";

    let map = objects::config_map("seen", serde_json::json!({}), serde_json::json!({}));
    admin.post(&maps, &map).await.expect(201);
    front
        .warm(&front.admin_client(), &format!("{maps}?resourceVersion=0"))
        .await;
    crate::harness::eventually("the role works", Duration::from_secs(20), || async {
        let direct = cluster.client(None);
        let offer = format!("{prefix}{token}, seen");
        let offer = [("Sec-WebSocket-Protocol", offer.as_str())];
        let said = conversation(&direct, &handshake(&watch(&maps), &offer)).await;
        said.starts_with(b"HTTP/1.1 101")
    })
    .await;
    let offers = [
        format!("{prefix}{token}, seen"),
        format!("seen,{prefix}{token}"),
        format!("{prefix}{token}, seen, other"),
        format!("{prefix}{token}"),
        format!("{prefix}bm9ib2R5, seen"),
    ];
    join_all(offers.iter().map(async |offer| {
        let offer = [("Sec-WebSocket-Protocol", offer.as_str())];
        let request = handshake(&watch(&maps), &offer);
        let (direct, front) = (cluster.client(None), front.client(None));
        let (direct, front) = tokio::join!(
            conversation(&direct, &request),
            conversation(&front, &request)
        );
        assert_eq!(meaning(&direct), meaning(&front), "{request}");
    }))
    .await;
    let elsewhere = watch("/api/v1/namespaces/default/configmaps");
    let offer = format!("{prefix}{token}, seen");
    let request = handshake(&elsewhere, &[("Sec-WebSocket-Protocol", &offer)]);
    let said = conversation(&front.client(None), &request).await;
    assert!(said.starts_with(b"HTTP/1.1 403") || oracle());
}

/// Sends `words` to both servers in turn, each on an open watch without events.
/// Returns both answers.
async fn chat(words: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let path = "/api/v1/namespaces";
    warm(path).await;
    let silent = format!(
        "{path}?watch=1&resourceVersion=0&timeoutSeconds=3&fieldSelector=metadata.name%3Dnone"
    );
    let request = handshake(&silent, &[]);
    let mut said = Vec::new();
    for client in [
        Cluster::quiet().admin_client(),
        Apifront::quiet().admin_client(),
    ] {
        let mut connection = open(&client, &request).await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(connection.read_exact(1).await.expect("a head"));
        }
        assert!(head.starts_with(b"HTTP/1.1 101"));
        // The write fails if a server ends the connection before it has read
        // everything.
        let _ = connection.write(words).await;
        said.push(connection.read_reply(END).await);
    }
    let front = said.pop().unwrap_or_default();
    (said.pop().unwrap_or_default(), front)
}

#[tokio::test]
async fn what_clients_say_is_ignored_and_pings_are_answered() {
    let mut words = client_frame(0x89, b"ping");
    words.extend(client_frame(0x81, b"hello"));
    words.extend(client_frame(0x82, &[0, 255]));
    words.extend(client_frame(0x01, b"in "));
    words.extend(client_frame(0x80, b"pieces"));
    words.extend(client_frame(0x8a, b"pong"));
    words.extend(client_frame(0x89, b""));
    let (direct, front) = chat(&words).await;
    assert_eq!(direct, front);
    assert_eq!(front, b"\x8a\x04ping\x8a\x00\x88\x02\x03\xe8");
}

#[tokio::test]
async fn a_client_that_closes_is_answered() {
    for close in [&[][..], &[3, 0xe8], &[3, 0xe9, b'b', b'y', b'e'], &[0, 1]] {
        let (direct, front) = chat(&client_frame(0x88, close)).await;
        assert_eq!(direct, b"\x88\x02\x03\xe8");
        assert_eq!(front, direct);
    }
}

#[tokio::test]
async fn what_no_client_may_send_ends_it() {
    // The first frame is not masked, the second is too large.
    let mut large = vec![0x82, 0xff, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0];
    large.resize(large.len() + (128 << 10), 0);
    for (words, code) in [(b"\x81\x03abc".to_vec(), 1002u16), (large, 1009)] {
        let (_, front) = chat(&words).await;
        let [high, low] = code.to_be_bytes();
        assert!(
            front == [0x88, 2, high, low] || front.is_empty() || oracle(),
            "{front:?}"
        );
    }
}

#[tokio::test]
async fn changes_arrive_each_in_a_frame_and_stopping_says_so() {
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    let admin = cluster.admin_client();
    let namespace = cluster.namespace("websocket").await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let list = format!("{maps}?resourceVersion=0");
    front.warm(&client, &list).await;
    let path = format!("{maps}?watch=1&resourceVersion=0");
    let mut connection = open(&client, &handshake(&path, &[])).await;
    let mut said = Vec::new();
    for name in ["a", "b", "c"] {
        // This object needs the long form of a length.
        let size = if name == "b" { 70_000 } else { 300 };
        let data = serde_json::json!({ "text": "x".repeat(size) });
        let map = objects::config_map(name, serde_json::json!({}), data);
        admin.post(&maps, &map).await.expect(201);
    }
    while frames(&said).len() < 3 {
        said.extend(connection.read_exact(1).await.expect("open"));
    }
    let events: Vec<serde_json::Value> = frames(&said)
        .iter()
        .filter(|(first, _)| *first == 0x81)
        .map(|(_, payload)| serde_json::from_slice(payload).expect("JSON"))
        .filter(|e: &serde_json::Value| e["object"]["metadata"]["name"] != "kube-root-ca.crt")
        .collect();
    for (event, name) in events.iter().zip(["a", "b", "c"]) {
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], name);
    }
    let stop = tokio::spawn(front.stop());
    let last = connection.read_reply(END).await;
    assert!(last.ends_with(b"\x88\x02\x03\xe9") || oracle(), "{last:?}");
    stop.await.expect("stopped");
}

/// Returns the complete frames after the head, as first byte and payload.
fn frames(said: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let head = said.windows(4).position(|w| w == b"\r\n\r\n");
    let mut rest = &said[head.map_or(said.len(), |at| at + 4)..];
    let mut frames = Vec::new();
    while let [first, length, more @ ..] = rest {
        let (length, from) = match *length {
            126 => match more {
                [a, b, ..] => (usize::from(u16::from_be_bytes([*a, *b])), 2),
                _ => break,
            },
            127 => match more.first_chunk::<8>() {
                Some(bytes) => (u64::from_be_bytes(*bytes) as usize, 8),
                None => break,
            },
            short => (usize::from(short), 0),
        };
        let Some(payload) = more.get(from..from + length) else {
            break;
        };
        frames.push((*first, payload.to_vec()));
        rest = &more[from + length..];
    }
    frames
}
