//! Sends bytes that no correct client sends. The answer must be right or the
//! connection closed, and the process must not suffer.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::json;

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::{Cluster, Once, once};
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::objects::config_map;

/// The time to wait for an answer to garbage, which comes quickly or not at all.
const QUIET: Duration = Duration::from_millis(500);
const LIST: &str = "/api/v1/namespaces/default/configmaps?resourceVersion=0";

/// Returns an apifront for these tests only, since they measure its memory.
fn front() -> &'static Apifront {
    static FRONT: Once<Apifront> = Once::new();
    once(&FRONT, || Apifront::start(Cluster::shared(), |_| {}))
}

async fn alive() {
    let answer = front().admin_client().get(LIST).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Returns the status of the first answer to raw bytes, or `None` if the peer closes
/// or stays silent.
async fn status_of(client: &Client, bytes: &[u8]) -> Option<u16> {
    let mut connection = client.raw().await.expect("a connection");
    // The server may close before the end of the request.
    let _ = connection.write(bytes).await;
    let answer = connection.read_reply(QUIET).await;
    let text = String::from_utf8_lossy(&answer);
    text.strip_prefix("HTTP/1.1 ")
        .or_else(|| text.strip_prefix("HTTP/1.0 "))
        .and_then(|rest| rest.get(..3)?.parse().ok())
}

fn request(line: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let mut text = format!("{line}\r\n");
    for header in headers {
        text += &format!("{header}\r\n");
    }
    (text + "\r\n" + body).into_bytes()
}

/// Sends broken requests. apifront must refuse each, or answer like kube-apiserver.
/// Go's server is laxer in places: ambiguous requests must always be refused.
#[tokio::test]
async fn broken_http1_is_refused() {
    let (direct, front) = (Cluster::shared().admin_client(), front().admin_client());
    let get = "GET /api/v1/namespaces/default/configmaps?resourceVersion=0 HTTP/1.1";
    let post = "POST /api/v1/namespaces/default/configmaps?dryRun=All HTTP/1.1";
    let json = "Content-Type: application/json";
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
    let length = format!("Content-Length: {}", body.len());
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let long = format!("X-Long: {}", "x".repeat(2 << 20));
    let long_path = format!("GET /api/v1/{} HTTP/1.1", "x".repeat(2 << 20));
    let many: Vec<String> = (0..5000)
        .map(|n| format!("X-{n}: {}", "y".repeat(300)))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let host = "Host: x";
    let te = "Transfer-Encoding: chunked";
    let mut wrong = Vec::new();
    for (what, bytes) in [
        ("not HTTP", b"\x16\x03\x01\x00nonsense\r\n\r\n".to_vec()),
        ("no host", request(get, &[], "")),
        ("two hosts", request(get, &["Host: a", "Host: b"], "")),
        ("bad host", request(get, &["Host: a b/c"], "")),
        (
            "space before the colon",
            request(get, &[host, "X-A : 1"], ""),
        ),
        ("folded header", request(get, &[host, "X-A: 1", " 2"], "")),
        ("NUL in a header", request(get, &[host, "X-A: a\0b"], "")),
        ("no version", request("GET /", &[host], "")),
        ("HTTP/3.7", request("GET / HTTP/3.7", &[host], "")),
        (
            "space in the path",
            request("GET /a b HTTP/1.1", &[host], ""),
        ),
        (
            "bad escape",
            request("GET /api/v1/%zz HTTP/1.1", &[host], ""),
        ),
        ("no slash", request("GET api HTTP/1.1", &[host], "")),
        ("bad method", request("G@T / HTTP/1.1", &[host], "")),
        (
            "two lengths",
            request(
                post,
                &[host, json, "Content-Length: 1", "Content-Length: 2"],
                body,
            ),
        ),
        (
            "negative length",
            request(post, &[host, json, "Content-Length: -1"], body),
        ),
        (
            "huge length",
            request(
                post,
                &[host, json, "Content-Length: 99999999999999999999"],
                body,
            ),
        ),
        (
            "length and chunked",
            request(post, &[host, json, &length, te], &chunked),
        ),
        (
            "chunked not last",
            request(
                post,
                &[host, json, "Transfer-Encoding: chunked, identity"],
                &chunked,
            ),
        ),
        (
            "unknown coding",
            request(post, &[host, json, "Transfer-Encoding: xchunked"], &chunked),
        ),
        (
            "bad chunk size",
            request(post, &[host, json, te], "zz\r\nx\r\n0\r\n\r\n"),
        ),
        (
            "huge chunk size",
            request(post, &[host, json, te], "fffffffffffffffff\r\nx"),
        ),
        ("long header", request(get, &[host, &long], "")),
        ("long path", request(&long_path, &[host], "")),
        (
            "many headers",
            request(get, &[&[host], &many[..]].concat(), ""),
        ),
    ] {
        let expected = status_of(&direct, &bytes).await;
        let got = status_of(&front, &bytes).await;
        let refused =
            got.is_none_or(|code| (400..=431).contains(&code) || matches!(code, 501 | 505));
        // Two servers may read these differently, so a proxy must not forward them.
        let ambiguous = [
            "length and chunked",
            "two lengths",
            "two hosts",
            "chunked not last",
            "unknown coding",
            "space before the colon",
        ];
        let must_refuse = ambiguous.contains(&what) && !oracle();
        if !refused && (must_refuse || got != expected) {
            wrong.push(format!("{what}: {got:?}, kube-apiserver: {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    alive().await;
}

/// A second request hidden in the body of the first is never answered.
#[tokio::test]
async fn no_request_is_smuggled() {
    let front = front().admin_client();
    let hidden = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
    for headers in [
        vec!["Host: x", "Content-Length: 4", "Transfer-Encoding: chunked"],
        vec![
            "Host: x",
            "Transfer-Encoding: chunked",
            "Transfer-Encoding: identity",
        ],
        vec!["Host: x", "Transfer-Encoding:\x0bchunked"],
        vec!["Host: x", "Content-Length: 0", "Content-Length: 44"],
    ] {
        let line = "POST /api/v1/namespaces/default/configmaps?dryRun=All HTTP/1.1";
        let bytes = request(line, &headers, &format!("0\r\n\r\n{hidden}"));
        let mut connection = front.raw().await.expect("a connection");
        let _ = connection.write(&bytes).await;
        let answer = connection.read_reply(QUIET).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(
            oracle() || !text.contains("gitVersion"),
            "{headers:?}: {text}"
        );
    }
    alive().await;
}

/// Sends odd requests that a correct client can still write.
#[tokio::test]
async fn odd_requests_get_the_same_answers() {
    use Expect::{Hit, NotAsked};
    let unusual = Expect::Bypass("unusual_request");
    let invalid = Expect::Bypass("invalid_options");
    let (direct, front) = (Cluster::shared().admin_client(), front().admin_client());
    for protocol in [Protocol::Http2, Protocol::Http1] {
        let mut both = Differential::new(direct.over(protocol), front.over(protocol));
        for (expected, path) in [
            (unusual, "/api/v1/namespaces/default/configmaps/%00"),
            (unusual, "/api/v1/namespaces/default/configmaps/%ff%fe"),
            (unusual, "/api/v1/namespaces/%2e%2e/configmaps"),
            (NotAsked, "/api/v1/namespaces/default/../../../etc/passwd"),
            (
                invalid,
                "/api/v1/namespaces/default/configmaps?labelSelector=%ff%fe",
            ),
            (
                invalid,
                "/api/v1/namespaces/default/configmaps?resourceVersion=0&labelSelector=%ff%fe%3D1",
            ),
            (
                Expect::Bypass("field_selector"),
                "/api/v1/namespaces/default/configmaps?resourceVersion=0&fieldSelector=%00%3D1",
            ),
            (
                invalid,
                "/api/v1/namespaces/default/configmaps?resourceVersion=%00",
            ),
            (Hit, "/api/v1/namespaces/default/configmaps?%zz=%zz"),
            (
                Hit,
                "/api/v1/namespaces/default/configmaps?resourceVersion=0&a=1;b=2",
            ),
            (
                Hit,
                "/api/v1/namespaces/DEFAULT/configmaps?resourceVersion=0",
            ),
            (unusual, "/apis/%20/v1/things"),
            (NotAsked, "/*"),
        ] {
            both.expect(expected).get(path).await;
        }
        let mut both = both.expecting(NotAsked);
        for method in [
            "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get",
        ] {
            let method = Method::from_bytes(method.as_bytes()).expect("method");
            both.ask(
                method,
                "/api/v1/namespaces/default/configmaps/none",
                &[],
                "",
            )
            .await;
        }
        let json = [("content-type", "application/json")];
        for body in ["", "{", "[]", "null", "{\"a\":1}{\"b\":2}", "\u{fffd}"] {
            let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
            both.ask(Method::POST, path, &json, body).await;
        }
        both.finish();
    }
}

#[tokio::test]
async fn large_bodies_are_limited() {
    let (direct, front) = (Cluster::shared().admin_client(), front().admin_client());
    let data = "x".repeat(4 << 20);
    let body = config_map("large", json!({}), json!({ "data": data })).to_string();
    let json = [("content-type", "application/json")];
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let ask = async |client: Client| {
            client
                .try_send(Method::POST, path, &json, body.clone())
                .await
        };
        let (direct, front) = (direct.over(protocol), front.over(protocol));
        let expected = ask(direct).await.expect("an answer").status;
        let got = ask(front).await.expect("an answer").status;
        assert_eq!(got, expected);
        assert!(expected.is_client_error());
    }
    alive().await;
}

/// Some clients begin a request and do not continue. Other callers must still be
/// served.
#[tokio::test]
async fn half_open_connections_starve_nobody() {
    let client = front().admin_client();
    let mut open = Vec::new();
    for n in 0..150 {
        let mut connection = client.raw().await.expect("a connection");
        let bytes: &[u8] = match n % 3 {
            0 => b"",
            1 => b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nX-Slow: ",
            _ => {
                b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n\
                  Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
            }
        };
        connection.write(bytes).await.expect("write");
        open.push(connection);
    }
    let started = Instant::now();
    for _ in 0..20 {
        let answer = client.separate().get(LIST).await;
        assert_eq!(answer.status, 200);
    }
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    drop(open);
    alive().await;
}

/// Sends a body that ends with an empty DATA frame, as some HTTP/2 clients do.
#[tokio::test]
async fn http2_body_with_an_empty_last_frame() {
    let cluster = Cluster::shared();
    for client in [cluster.admin_client(), front().admin_client()] {
        let ns = cluster.namespace("empty-data").await;
        let stream = client.tls_stream(b"h2").await.expect("a connection");
        let (mut sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let request = http::Request::post(format!(
            "https://{}/api/v1/namespaces/{ns}/configmaps",
            client.address()
        ));
        let request = request.header("content-type", "application/json").body(());
        let (response, mut body) = sender
            .send_request(request.expect("request"), false)
            .expect("stream");
        let object = config_map("a", json!({}), json!({})).to_string();
        let (first, second) = object.split_at(10);
        for part in ["", first, "", second] {
            body.send_data(Bytes::copy_from_slice(part.as_bytes()), false)
                .expect("DATA");
        }
        body.send_data(Bytes::new(), true).expect("DATA");
        let response = tokio::time::timeout(Duration::from_secs(20), response).await;
        let response = response.expect("an answer in time").expect("an answer");
        assert_eq!(response.status(), 201);
    }
}

/// Sends HTTP/2 floods of frames that cost the sender nothing.
#[tokio::test]
async fn http2_floods_end_with_the_connection() {
    let client = front().admin_client();
    // Opens thousands of streams, and resets each at once.
    let stream = client.tls_stream(b"h2").await.expect("a connection");
    let (sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    for _ in 0..5000 {
        let Ok(mut sender) = sender.clone().ready().await else {
            break;
        };
        let request = http::Request::get(format!("https://{}{LIST}", client.address()));
        let Ok((_, mut stream)) = sender.send_request(request.body(()).expect("request"), false)
        else {
            break;
        };
        stream.send_reset(h2::Reason::CANCEL);
    }
    connection.abort();
    alive().await;
    // This connection sends HTTP/1.1 after agreeing on HTTP/2.
    let mut raw = client.raw_http2().await.expect("a connection");
    let _ = raw.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(raw.closed_within(Duration::from_secs(30)).await || oracle());
    alive().await;
}

#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn memory_stays_flat() {
    let client = front().admin_client();
    let garbage = request(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1",
        &["Host: a", "Host: b", "Content-Length: 99999999"],
        &"x".repeat(64 << 10),
    );
    let round = async || {
        for _ in 0..100 {
            let mut connection = client.raw().await.expect("a connection");
            let _ = connection.write(&garbage).await;
        }
        for n in 0..100 {
            let path = format!("/api/v1/namespaces/no-such-{n}/things-{n}?resourceVersion=0");
            let odd = format!("v{n}");
            client
                .send(Method::GET, &path, &[("x-odd", &odd)], "")
                .await;
        }
        alive().await;
    };
    round().await;
    let before = front().process.resident_bytes();
    for _ in 0..5 {
        round().await;
    }
    let after = front().process.resident_bytes();
    let grown = after.saturating_sub(before) >> 20;
    assert!(grown < 64, "{grown} MiB more than before");
}
