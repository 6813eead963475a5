//! Tests the borders between messages.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use http::Method;
use serde_json::Value;

use super::{SOON, echo_leftover, get, h2_body, h2_request, h2c, personal_before, split};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::scripted::Scripted;

/// The number of requests. Two of them must share a connection.
const TRIES: usize = 20;

/// pingora issue 935: a second terminating chunk would be read as the start of
/// another caller's request.
#[tokio::test]
async fn a_body_that_ends_in_an_empty_frame_ends_once() {
    let scripted = Scripted::start(echo_leftover).await;
    let front = personal_before(&scripted).await;
    let mut sender = h2c(&front).await;
    for pieces in [&["hello"][..], &["hello", ""], &["", ""], &["", "a", ""]] {
        // A connection returns to the pool just after the answer's end, so the next
        // request may come too early for it.
        let mut before = None;
        for _ in 0..TRIES {
            send_pieces(&front, &mut sender, pieces).await;
            let last = scripted.seen().last().map(|seen| seen.connection);
            if before.is_some() && before == last {
                break;
            }
            before = last;
        }
        let seen = scripted.seen();
        let [.., former, last] = &seen[..] else {
            panic!("two requests at least: {seen:?}");
        };
        assert_eq!(
            former.connection, last.connection,
            "the connection stays usable after {pieces:?}: {seen:?}"
        );
    }
    front.stop().await;
}

/// Sends a body in pieces, each of which becomes a frame. Exactly these bytes
/// arrive.
async fn send_pieces(front: &Apifront, sender: &mut SendRequest<Bytes>, pieces: &[&'static str]) {
    let request = h2_request(front, "POST", "/anything");
    let (answer, mut body) = sender.send_request(request, false).expect("sent");
    let (last, first) = pieces.split_last().expect("pieces");
    for piece in first {
        body.send_data(Bytes::from_static(piece.as_bytes()), false)
            .expect("sent");
        // The pause makes each piece a frame.
        crate::harness::pace::of_load(Duration::from_millis(20)).await;
    }
    body.send_data(Bytes::from_static(last.as_bytes()), true)
        .expect("sent");
    let answer = answer.await.expect("an answer");
    let text = String::from_utf8(h2_body(answer.into_body()).await).expect("text");
    let length: usize = pieces.iter().map(|p| p.len()).sum();
    assert_eq!(text, format!("{length} \"\""), "{pieces:?}");
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

/// HTTP/1.0 has no chunks. The end of the connection ends the answer.
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
        let answer = connection.read_reply(SOON * 2).await;
        assert!(start.elapsed() < SOON * 2, "{path}: the connection closes");
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

/// A second request in the same packet is answered, or the connection closes after
/// the first answer. No client waits forever, and answers are not confused.
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
        let answer = connection.read_reply(Duration::from_secs(2)).await;
        let text = String::from_utf8_lossy(&answer);
        let answers = text.matches("HTTP/1.1 200 OK").count();
        let closed = connection.closed_within(Duration::from_millis(50)).await;
        assert!(
            answers == 2 || (answers == 1 && closed),
            "{first}: {answers} answers\n{text:.2000}"
        );
    }
}
