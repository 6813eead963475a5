//! Where HTTP proxies, and pingora among them, are known to stumble: framing,
//! upgrades, certificates, cancellation, shutdown.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::kubectl::Kubectl;
use crate::harness::kwok::Kwok;
use crate::harness::objects::config_map;
use crate::harness::process;
use crate::harness::raw::RawConnection;
use crate::harness::scripted::{Connection, Scripted};
use crate::harness::watch::{End, Watch};

const SOON: Duration = Duration::from_secs(5);
/// Longer than anything on loopback that is not an answer to wait for.
const QUIET: Duration = Duration::from_millis(300);
const MUCH: usize = 20 << 20;

/// `apifront --kubeconfig` before a scripted server.
async fn personal_before(scripted: &Scripted) -> Apifront {
    let folder = process::temporary_folder("traps");
    let config = kubeconfig::write(&folder, "traps", &scripted.url(), None, Credential::None);
    Apifront::personal(&config).await
}

/// apifront with TLS, before a scripted server.
async fn front_before(scripted: &Scripted) -> Apifront {
    let cluster = Cluster::shared();
    Apifront::start(cluster, |config| {
        config["upstream"] = json!({ "servers": [scripted.url()], "caFile": cluster.ca() });
    })
    .await
}

async fn raw(front: &Apifront) -> RawConnection {
    RawConnection::new(TcpStream::connect(front.address).await.expect("connect"))
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// An HTTP/2 connection without TLS.
async fn h2c(front: &Apifront) -> h2::client::SendRequest<Bytes> {
    let stream = TcpStream::connect(front.address).await.expect("connect");
    let (sender, connection) = h2::client::handshake(stream).await.expect("handshake");
    tokio::spawn(connection);
    sender.ready().await.expect("a usable connection")
}

fn h2_request(front: &Apifront, method: &str, path: &str) -> Request<()> {
    let uri = format!("http://{}{path}", front.address);
    let request = Request::builder().method(method).uri(uri);
    request.body(()).expect("a request")
}

async fn h2_body(mut body: h2::RecvStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.expect("the whole answer");
        let _ = body.flow_control().release_capacity(data.len());
        all.extend_from_slice(&data);
    }
    all
}

/// Answers every request, and says in its answer what came after its body.
async fn echo_leftover(mut connection: Connection) {
    while let Some(request) = connection.next().await {
        let body = connection.body(&request).await.unwrap_or_default();
        let leftover = connection.read_within(QUIET).await;
        let text = format!("{} {:?}", body.len(), String::from_utf8_lossy(&leftover));
        connection.answer("200 OK", &text).await;
    }
}

/// pingora issue 935: a second terminating chunk is the start of somebody
/// else's next request.
#[tokio::test]
async fn a_body_that_ends_in_an_empty_frame_ends_once() {
    let scripted = Scripted::start(echo_leftover).await;
    let front = personal_before(&scripted).await;
    let mut sender = h2c(&front).await;
    for pieces in [&["hello"][..], &["hello", ""], &["", ""], &["", "a", ""]] {
        let request = h2_request(&front, "POST", "/anything");
        let (answer, mut body) = sender.send_request(request, false).expect("sent");
        let (last, first) = pieces.split_last().expect("pieces");
        for piece in first {
            body.send_data(Bytes::from_static(piece.as_bytes()), false)
                .expect("sent");
            // Each is a frame of its own.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        body.send_data(Bytes::from_static(last.as_bytes()), true)
            .expect("sent");
        let answer = answer.await.expect("an answer");
        let text = String::from_utf8(h2_body(answer.into_body()).await).expect("text");
        let length: usize = pieces.iter().map(|p| p.len()).sum();
        assert_eq!(text, format!("{length} \"\""), "{pieces:?}");
    }
    let seen = scripted.seen();
    assert_eq!(seen.len(), 4);
    assert!(
        seen.iter().all(|s| s.connection == seen[0].connection),
        "the connection stays usable: {seen:?}"
    );
    front.stop().await;
}

/// pingora issue 946: the answer to an upgrade may come before the request is
/// over.
#[tokio::test]
async fn a_tunnel_whose_101_comes_early_stands() {
    let scripted = Scripted::start(|mut connection| async move {
        let Some(request) = connection.next().await else {
            return;
        };
        let protocol = request.header("upgrade").unwrap_or("none").to_owned();
        connection
            .write(format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {protocol}\r\nConnection: Upgrade\r\n\r\nhello"
            ))
            .await;
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = connection.stream.read(&mut buffer).await {
            connection.write(&buffer[..n]).await;
        }
    })
    .await;
    let front = personal_before(&scripted).await;
    let path = "/api/v1/namespaces/default/pods/p/exec?command=true";
    for (method, protocol) in [
        ("GET", "websocket"),
        ("POST", "websocket"),
        ("GET", "SPDY/3.1"),
        ("POST", "SPDY/3.1"),
    ] {
        let tunnel = async |n: usize| {
            let mut connection = raw(&front).await;
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nContent-Length: 0\r\n\r\n"
            );
            connection.write(request.as_bytes()).await.expect("write");
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                let byte = connection.read_exact(1).await.expect("the head");
                head.push(char::from(byte[0]));
            }
            assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
            assert_eq!(connection.read_exact(5).await.expect("early"), b"hello");
            let ping = format!("ping {n:04}");
            connection.write(ping.as_bytes()).await.expect("write");
            let pong = connection.read_exact(ping.len()).await.expect("an echo");
            assert_eq!(pong, ping.as_bytes());
        };
        let all = futures::future::join_all((0..50).map(tunnel));
        tokio::time::timeout(SOON, all)
            .await
            .unwrap_or_else(|_| panic!("{method} {protocol}: 50 of 50 tunnels"));
    }
    front.stop().await;
}

#[tokio::test]
async fn redirects_are_passed_on() {
    let scripted = Scripted::start(|mut connection| async move {
        while connection.next().await.is_some() {
            let answer = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/elsewhere\r\nContent-Length: 0\r\n\r\n";
            connection.write(answer).await;
        }
    })
    .await;
    let front = personal_before(&scripted).await;
    let client = Client::plain(front.address);
    let exec = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    for (path, headers) in [
        ("/anything", &[][..]),
        ("/api/v1/namespaces/default/pods?watch=1", &[]),
        ("/api/v1/namespaces/default/pods/p/log?follow=true", &[]),
        ("/api/v1/namespaces/default/pods/p/exec", &exec),
    ] {
        let answer = client.send(Method::GET, path, headers, "").await;
        assert_eq!(answer.status, 302, "{path}");
        assert_eq!(answer.header("location"), "http://127.0.0.1:1/elsewhere");
        assert_eq!(scripted.count(&format!("GET {path}")), 1);
    }
    front.stop().await;
}

/// A client that goes away takes its request upstream with it.
#[tokio::test]
async fn a_client_that_leaves_is_noticed_upstream() {
    let (noticed, mut notices) = mpsc::channel(16);
    let (arrived, mut arrivals) = mpsc::channel(16);
    let scripted = Scripted::start(move |mut connection| {
        let (noticed, arrived) = (noticed.clone(), arrived.clone());
        async move {
            let Some(request) = connection.next().await else {
                return;
            };
            if request.line.contains("begun") {
                connection
                    .write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
                    .await;
            }
            arrived.send(()).await.expect("the test lives");
            let closed = connection.closed_within(Duration::from_secs(1)).await;
            let _ = noticed.send(closed).await;
        }
    })
    .await;
    let front = personal_before(&scripted).await;
    let pods = "/api/v1/namespaces/default/pods";
    for path in [
        "/slow".to_owned(),
        "/begun".to_owned(),
        format!("{pods}/p"),
        format!("{pods}/p/log?follow=true"),
        format!("{pods}/p/log?follow=true&begun"),
        format!("{pods}?watch=1"),
        format!("{pods}?watch=1&begun"),
    ] {
        let mut http1 = raw(&front).await;
        http1.write(get(&path).as_bytes()).await.expect("write");
        tokio::time::timeout(SOON, arrivals.recv())
            .await
            .expect("it arrives");
        drop(http1);
        let closed = tokio::time::timeout(SOON, notices.recv()).await;
        assert_eq!(closed.expect("a notice"), Some(true), "HTTP/1.1 {path}");

        let mut http2 = h2c(&front).await;
        let request = h2_request(&front, "GET", &path);
        let (answer, _) = http2.send_request(request, true).expect("sent");
        tokio::time::timeout(SOON, arrivals.recv())
            .await
            .expect("it arrives");
        // RST_STREAM; the connection stays.
        drop(answer);
        let closed = tokio::time::timeout(SOON, notices.recv()).await;
        assert_eq!(closed.expect("a notice"), Some(true), "HTTP/2 {path}");
    }
    front.stop().await;
}

#[tokio::test]
async fn trailers_disturb_nothing() {
    let scripted = Scripted::start(|mut connection| async move {
        while let Some(request) = connection.next().await {
            let body = connection.body(&request).await.unwrap_or_default();
            let length = body.len();
            connection
                .write(format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n{length:x}\r\n"
                ))
                .await;
            connection.write(&body).await;
            connection.write("\r\n0\r\nx-sum: 1\r\n\r\n").await;
        }
    })
    .await;
    let front = personal_before(&scripted).await;
    let client = Client::plain(front.address);
    for _ in 0..2 {
        let answer = client.send(Method::POST, "/x", &[], "hello").await;
        assert_eq!(
            (answer.status.as_u16(), answer.text().as_str()),
            (200, "hello")
        );
    }
    let mut sender = h2c(&front).await;
    for _ in 0..2 {
        let request = h2_request(&front, "POST", "/x");
        let (answer, mut body) = sender.send_request(request, false).expect("sent");
        body.send_data(Bytes::from_static(b"hello"), false)
            .expect("sent");
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", "1".parse().expect("a value"));
        body.send_trailers(trailers).expect("sent");
        let answer = answer.await.expect("an answer");
        assert_eq!(h2_body(answer.into_body()).await, b"hello");
    }
    front.stop().await;
}

#[tokio::test]
async fn any_method_is_passed_on() {
    let scripted = Scripted::start(echo_leftover).await;
    let front = personal_before(&scripted).await;
    let client = Client::plain(front.address);
    for method in ["OPTIONS", "PURGE", "PROPFIND", "TRACE", "QUERY"] {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let answer = client.send(method.clone(), "/x", &[], "").await;
        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        assert_eq!(scripted.count(&format!("{method} /x")), 1);
    }
    front.stop().await;
    if !oracle() {
        let (direct, front) = both();
        for path in ["/api/v1/namespaces/default", "/version"] {
            for method in [Method::OPTIONS, Method::HEAD, Method::TRACE] {
                for protocol in [Protocol::Http1, Protocol::Http2] {
                    let send = |c: &Client| {
                        let client = c.over(protocol);
                        let method = method.clone();
                        async move { client.send(method, path, &[], "").await }
                    };
                    let (expected, got) = (send(&direct).await, send(&front).await);
                    assert_eq!(got.status, expected.status, "{method} {path}");
                    assert_eq!(got.text(), expected.text(), "{method} {path}");
                    assert_eq!(
                        got.header("content-type"),
                        expected.header("content-type"),
                        "{method} {path}"
                    );
                }
            }
        }
    }
}

fn both() -> (Client, Client) {
    (
        Cluster::shared().admin_client(),
        Apifront::shared().admin_client(),
    )
}

/// What follows a head, by Content-Length or by chunks.
fn split(answer: &[u8]) -> (String, Vec<u8>) {
    let at = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let at = at.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(answer)));
    let head = String::from_utf8_lossy(&answer[..at]).to_ascii_lowercase();
    (head, answer[at + 4..].to_vec())
}

/// HTTP/1.0 has no chunks; the end of the connection ends the answer.
#[tokio::test]
async fn http_1_0_gets_no_chunks() {
    let admin = Apifront::shared().admin_client();
    Apifront::shared()
        .warm(&admin, "/api/v1/namespaces?resourceVersion=0")
        .await;
    for path in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces",
        "/api/v1/namespaces?resourceVersion=0",
        "/api/v1/namespaces?watch=1&resourceVersion=0&timeoutSeconds=1&fieldSelector=metadata.name%3Ddefault",
        "/api/v1/namespaces?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Ddefault",
        "/api",
        "/apis",
        "/openapi/v2",
        "/version",
    ] {
        let mut connection = admin.over(Protocol::Http1).raw().await.expect("connect");
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        connection.write(request.as_bytes()).await.expect("write");
        let start = Instant::now();
        let answer = connection.read_until_quiet(Duration::from_secs(4)).await;
        assert!(
            start.elapsed() < Duration::from_secs(4),
            "{path}: the connection closes"
        );
        let (head, body) = split(&answer);
        assert!(!head.contains("transfer-encoding"), "{path}: {head}");
        let text = String::from_utf8(body).unwrap_or_else(|e| panic!("{path}: {e}"));
        for line in text.lines().filter(|_| path.contains("watch")) {
            serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{path}: {e}: {line}"));
        }
        if !path.contains("watch") {
            let parsed = serde_json::from_str::<Value>(&text);
            parsed.unwrap_or_else(|e| panic!("{path}: {e}: {head}\n{text:.300}"));
        }
    }
}

/// A second request in the same packet is answered, or the connection closes
/// after the first: nobody waits for nothing, and no answer is mixed up.
#[tokio::test]
async fn pipelined_requests_are_answered_or_closed() {
    let admin = Apifront::shared().admin_client().over(Protocol::Http1);
    for (first, second) in [
        (
            "/api/v1/namespaces/default",
            "/api/v1/namespaces/kube-system",
        ),
        (
            "/api/v1/namespaces?resourceVersion=0",
            "/api/v1/namespaces/kube-system",
        ),
        ("/version", "/api/v1/namespaces?resourceVersion=0"),
    ] {
        let mut connection = admin.raw().await.expect("connect");
        let both = get(first) + &get(second);
        connection.write(both.as_bytes()).await.expect("write");
        let answer = connection.read_until_quiet(Duration::from_secs(2)).await;
        let text = String::from_utf8_lossy(&answer);
        let answers = text.matches("HTTP/1.1 200 OK").count();
        let closed = connection.closed_within(Duration::from_millis(50)).await;
        assert!(
            answers == 2 || (answers == 1 && closed),
            "{first}: {answers} answers\n{text:.2000}"
        );
    }
}

#[tokio::test]
async fn expect_100_continue() {
    let cluster = Cluster::shared();
    let ns = cluster.namespace("expect").await;
    let admin = Apifront::shared().admin_client().over(Protocol::Http1);
    let body = config_map("expected", json!({}), json!({})).to_string();
    let mut connection = admin.raw().await.expect("connect");
    let head = format!(
        "POST /api/v1/namespaces/{ns}/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    connection.write(head.as_bytes()).await.expect("write");
    let go = b"HTTP/1.1 100 Continue\r\n\r\n".len();
    let go = tokio::time::timeout(SOON, connection.read_exact(go)).await;
    let go = go.expect("told to continue").expect("told to continue");
    assert_eq!(
        String::from_utf8_lossy(&go),
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    connection.write(body.as_bytes()).await.expect("write");
    let answer = connection.read_until_quiet(Duration::from_secs(1)).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 201 Created"), "{text}");

    // A 100 is no answer yet: what goes wrong after it is still told.
    let scripted = Scripted::start(|mut connection| async move {
        if let Some(request) = connection.next().await {
            assert_eq!(request.header("expect"), None);
            connection.body(&request).await;
        }
    })
    .await;
    let front = personal_before(&scripted).await;
    let mut connection = raw(&front).await;
    connection.write(head.as_bytes()).await.expect("write");
    connection.write(body.as_bytes()).await.expect("write");
    let answer = connection.read_until_quiet(Duration::from_secs(1)).await;
    let text = String::from_utf8_lossy(&answer);
    let rest = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n");
    assert!(
        rest.is_some_and(|r| r.starts_with("HTTP/1.1 503 ")),
        "{text}"
    );
    front.stop().await;
}

/// A refused client that never ends its body, or waits to be told to send it,
/// is answered all the same.
#[tokio::test]
async fn refusals_wait_for_no_body() {
    let nobody = Apifront::shared().client(None);
    for (header, pieces) in [
        ("Content-Length: 100\r\nExpect: 100-continue", 0),
        ("Content-Length: 100", 0),
        ("Transfer-Encoding: chunked", 0),
        ("Transfer-Encoding: chunked", 1),
        ("Transfer-Encoding: chunked", 40),
    ] {
        let mut connection = nobody.over(Protocol::Http1).raw().await.expect("connect");
        let head = format!(
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n"
        );
        connection.write(head.as_bytes()).await.expect("write");
        let piece = format!("{:x}\r\n{}\r\n", 20_000, "x".repeat(20_000));
        for _ in 0..pieces {
            if connection.write(piece.as_bytes()).await.is_err() {
                break;
            }
        }
        let start = Instant::now();
        let answer = connection.read_until_quiet(Duration::from_secs(4)).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(
            text.starts_with("HTTP/1.1 401 "),
            "{header}, {pieces}: {text}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(3),
            "{header}, {pieces}: it closes"
        );
    }
    let mut small = nobody.over(Protocol::Http1).raw().await.expect("connect");
    let request = "POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody";
    for _ in 0..2 {
        small
            .write(request.as_bytes())
            .await
            .expect("the connection lives on");
        let answer = small.read_until_quiet(QUIET).await;
        assert!(answer.starts_with(b"HTTP/1.1 401 "));
    }
}

/// A body that a watch or an upgrade has no use for is not waited for upstream.
#[tokio::test]
async fn needless_bodies_hold_nobody_up() {
    let admin = Apifront::shared().admin_client().over(Protocol::Http1);
    let one = "fieldSelector=metadata.name%3Ddefault&timeoutSeconds=1";
    let exec = "/api/v1/namespaces/default/pods/none/exec?command=true";
    let framings = [
        "Content-Length: 2\r\n\r\n{}",
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ];
    for framing in framings {
        for (start, code) in [
            (
                format!("GET /api/v1/namespaces?watch=1&{one} HTTP/1.1"),
                200,
            ),
            (
                format!("GET /api/v1/namespaces?watch=1&resourceVersion=0&{one} HTTP/1.1"),
                200,
            ),
            (
                "GET /api/v1/namespaces?resourceVersion=0 HTTP/1.1".to_owned(),
                200,
            ),
            (
                format!("POST {exec} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1"),
                404,
            ),
        ] {
            let mut connection = admin.raw().await.expect("connect");
            let request = format!("{start}\r\nHost: localhost\r\n{framing}");
            connection.write(request.as_bytes()).await.expect("write");
            let answer = connection.read_until_quiet(Duration::from_secs(3)).await;
            let text = String::from_utf8_lossy(&answer);
            assert!(
                text.starts_with(&format!("HTTP/1.1 {code} ")),
                "{request}: {text:.500}"
            );
            if start.contains("watch") {
                assert!(text.contains("ADDED"), "{request}: {text:.500}");
            }
        }
    }
}

#[tokio::test]
async fn large_bodies_reach_upstream() {
    let cluster = Cluster::shared();
    let ns = cluster.namespace("large").await;
    let path = format!("/api/v1/namespaces/{ns}/configmaps?dryRun=All");
    let (direct, front) = both();
    let json = [("content-type", "application/json")];
    for (size, code) in [
        (900 << 10, 201),
        (2_900 << 10, 422),
        (4 << 20, 413),
        (12 << 20, 413),
    ] {
        let body = config_map("large", json!({}), json!({ "a": "x".repeat(size) })).to_string();
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let send = |client: &Client| {
                let (client, path, body) = (client.over(protocol), path.clone(), body.clone());
                async move { client.try_send(Method::POST, &path, &json, body).await }
            };
            let expected = send(&direct).await;
            let got = send(&front).await;
            // Over HTTP/1.1 a server that refuses a body may close before the
            // client has read why.
            let Ok(expected) = expected else { continue };
            let got = got.unwrap_or_else(|e| panic!("{size} bytes, {protocol:?}: {e}"));
            assert_eq!(expected.status, code, "{size} bytes directly, {protocol:?}");
            assert_eq!(
                got.status,
                code,
                "{size} bytes, {protocol:?}: {:.300}",
                got.text()
            );
            if code != 201 {
                assert_eq!(got.text(), expected.text());
            }
        }
    }
    // Without a Content-Length.
    let body = config_map("chunked", json!({}), json!({ "a": "x".repeat(500_000) })).to_string();
    let mut connection = front.over(Protocol::Http1).raw().await.expect("connect");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    connection.write(head.as_bytes()).await.expect("write");
    for piece in body.as_bytes().chunks(70_000) {
        let size = format!("{:x}\r\n", piece.len());
        connection.write(size.as_bytes()).await.expect("write");
        connection.write(piece).await.expect("write");
        connection.write(b"\r\n").await.expect("write");
    }
    connection.write(b"0\r\n\r\n").await.expect("write");
    let answer = connection.read_until_quiet(Duration::from_secs(1)).await;
    let (head, _) = split(&answer);
    assert!(head.starts_with("http/1.1 201"), "{head}");
}

/// Reads slowly at first: buffers fill, and flow control must work.
async fn read_slowly(client: &Client, path: &str) -> Vec<u8> {
    let plain = [("accept-encoding", "identity")];
    let mut body = client.open(path, &plain).await.into_body();
    let mut all = Vec::new();
    let mut pauses = 3;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.expect("the whole answer").into_data() {
            all.extend_from_slice(&data);
        }
        if pauses > 0 && all.len() > (4 - pauses) << 20 {
            pauses -= 1;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }
    all
}

#[tokio::test]
async fn large_answers_arrive_whole() {
    let content: Vec<u8> = (0..MUCH).map(|n| b'a' + (n % 23) as u8).collect();
    let sent = content.clone();
    let scripted = Scripted::start(move |mut connection| {
        let sent = sent.clone();
        async move {
            while let Some(request) = connection.next().await {
                if request.line.contains("chunked") {
                    connection
                        .write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                        .await;
                    for piece in sent.chunks(100_000) {
                        connection.write(format!("{:x}\r\n", piece.len())).await;
                        connection.write(piece).await;
                        connection.write("\r\n").await;
                    }
                    connection.write("0\r\n\r\n").await;
                } else {
                    connection
                        .write(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n"))
                        .await;
                    connection.write(&sent).await;
                }
            }
        }
    })
    .await;
    let personal = personal_before(&scripted).await;
    let front = front_before(&scripted).await;
    let clients = [
        ("HTTP/1.1", Client::plain(personal.address)),
        ("TLS, HTTP/1.1", front.admin_client().over(Protocol::Http1)),
        ("TLS, HTTP/2", front.admin_client()),
    ];
    for (name, client) in &clients {
        for path in ["/sized", "/chunked", "/api/v1/namespaces/x/pods/p/log"] {
            let got = read_slowly(client, path).await;
            assert!(
                got == content,
                "{name} {path}: {} of {MUCH} bytes",
                got.len()
            );
        }
    }
    personal.stop().await;
    front.stop().await;
}

#[tokio::test]
async fn large_cached_answers_arrive_whole() {
    let cluster = Cluster::shared();
    let ns = cluster.namespace("heavy").await;
    let (direct, front) = both();
    let path = format!("/apis/apps/v1/namespaces/{ns}/controllerrevisions");
    for n in 0..20 {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": { "name": format!("r{n:02}") },
            "revision": n, "data": { "text": "x".repeat(1 << 20) },
        });
        direct.post(&path, &object).await.expect(201);
    }
    let list = format!("{path}?resourceVersion=0");
    Apifront::shared().warm(&front, &list).await;
    let expected = direct.get(&list).await.json()["items"].take();
    let personal_config = &cluster.admin_kubeconfig;
    let personal = Apifront::personal(personal_config).await;
    let plain = Client::plain(personal.address);
    personal.warm(&plain, &list).await;
    for (name, client) in [
        ("HTTP/1.1", &plain),
        ("TLS, HTTP/1.1", &front.over(Protocol::Http1)),
        ("TLS, HTTP/2", &front),
    ] {
        let got = read_slowly(client, &list).await;
        let mut got: Value = serde_json::from_slice(&got).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(got["items"].take() == expected, "{name}");
    }
    personal.stop().await;
    direct.delete(&path).await.expect(200);
}

/// A server that is not who it should be gets no request of any kind.
#[tokio::test]
async fn upstream_must_be_who_it_says() {
    let cluster = Cluster::shared();
    let folder = process::temporary_folder("names");
    let port = cluster.apiserver.port;
    let ip = format!("https://127.0.0.1:{port}");
    let name = format!("https://localhost:{port}");
    let stranger = cluster.certificates.stranger("kubernetes-admin", &[]);
    // Not an authority of ours, but a certificate to trust.
    let other_ca = stranger.cert.with_file_name("stranger-ca.crt");
    let user = json!({ "token": "token-of-root" });
    let cases = [
        ("address", &ip, cluster.ca(), None, true),
        ("name", &name, cluster.ca(), None, true),
        ("given name", &ip, cluster.ca(), Some("localhost"), true),
        ("other name", &ip, cluster.ca(), Some("example.test"), false),
        ("other address", &ip, cluster.ca(), Some("127.0.0.2"), false),
        ("other authority", &ip, other_ca.as_path(), None, false),
    ];
    let test = async |(case, server, ca, server_name, good): (
        &str,
        &String,
        &std::path::Path,
        Option<&str>,
        bool,
    )| {
        let mut upstream = json!({ "server": server, "certificate-authority": ca });
        if let Some(server_name) = server_name {
            upstream["tls-server-name"] = json!(server_name);
        }
        let file = case.replace(' ', "-");
        let config = kubeconfig::write_parts(&folder, &file, upstream, user.clone());
        let front = Apifront::personal_alive(&config, &[]).await;
        let client = Client::plain(front.address);
        let pods = "/api/v1/namespaces/default/pods";
        let upgrade = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        for (path, headers, code) in [
            ("/api/v1/namespaces/default".to_owned(), &[][..], 200),
            ("/api/v1/namespaces?resourceVersion=0".to_owned(), &[], 200),
            (format!("{pods}?watch=1&timeoutSeconds=1"), &[], 200),
            (format!("{pods}/none/log"), &[], 404),
            (format!("{pods}/none/exec?command=true"), &upgrade, 404),
        ] {
            let answer = client.send(Method::GET, &path, headers, "").await;
            let expected = if good { code } else { 503 };
            assert_eq!(answer.status, expected, "{case} {path}: {}", answer.text());
            if !good {
                assert_eq!(answer.header("retry-after"), "1", "{case} {path}");
                assert_eq!(answer.json()["reason"], "ServiceUnavailable");
            }
        }
        let ready = client.get("/readyz").await;
        assert_eq!(ready.status == 200, good, "{case}: {}", ready.text());
        front.stop().await;
    };
    futures::future::join_all(cases.map(test)).await;
}

/// SIGTERM with one of everything open.
#[tokio::test]
async fn everything_open_ends_with_the_process() {
    if oracle() {
        return;
    }
    let cluster = Cluster::shared();
    let ns = cluster.namespace("shutdown").await;
    Kwok::shared().run_pod(cluster, &ns, "p").await;
    let mut front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    let list = "/api/v1/namespaces?resourceVersion=0";
    front.warm(&client, list).await;

    let mut idle = client.over(Protocol::Http1).raw().await.expect("connect");
    idle.write(get("/version").as_bytes()).await.expect("write");
    assert!(!idle.read_until_quiet(QUIET).await.is_empty());
    let http2 = client.separate();
    http2.get("/version").await.expect(200);
    let cached =
        format!("/api/v1/namespaces?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D{ns}");
    let forwarded = format!("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3D{ns}");
    let mut watches = Vec::new();
    for path in [&cached, &forwarded] {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let mut watch = Watch::open(&client.over(protocol), path).await;
            watch.next().await.expect("an event");
            watches.push(watch);
        }
    }
    let url = front.url();
    let who = Credential::Certificate(&cluster.admin);
    let config = kubeconfig::write(&front.folder, "admin", &url, Some(cluster.ca()), who);
    let kubectl = Kubectl::new(&config);
    let mut commands = Vec::new();
    for arguments in [
        &[
            "exec",
            "-n",
            &ns,
            "p",
            "--",
            "sh",
            "-c",
            "echo up; sleep 60",
        ][..],
        &["logs", "-f", "-n", &ns, "p"],
    ] {
        let mut child = kubectl.start(arguments);
        let out = child.stdout.as_mut().expect("piped");
        let first = tokio::time::timeout(Duration::from_secs(20), out.read_u8()).await;
        first.expect("output").expect("output");
        commands.push(child);
    }

    let start = Instant::now();
    front.process.signal("TERM");
    for mut watch in watches {
        assert_eq!(watch.rest().await.1, End::Clean);
    }
    assert!(idle.closed_within(SOON).await);
    let status = front.process.wait(Duration::from_secs(20)).await;
    let took = start.elapsed();
    assert!(status.success(), "{status}\n{}", front.process.log_tail());
    assert!(
        took < Duration::from_secs(3),
        "took {took:?}\n{}",
        front.process.log_tail()
    );
    for mut child in commands {
        let ended = tokio::time::timeout(SOON, child.wait()).await;
        ended.expect("kubectl ends").expect("kubectl ends");
    }
}
