//! Tests request bodies that are awaited, useless or large.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use super::{QUIET, SOON, both, personal_before, raw, split};
use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::scripted::Scripted;

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
    let answer = connection.read_reply(Duration::from_secs(1)).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 201 Created"), "{text}");

    // A 100 is not the final answer, so a failure after it must be reported.
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
    let answer = connection.read_reply(Duration::from_secs(1)).await;
    let text = String::from_utf8_lossy(&answer);
    let rest = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n");
    assert!(
        rest.is_some_and(|r| r.starts_with("HTTP/1.1 503 ")),
        "{text}"
    );
    front.stop().await;
}

/// A refused client gets its answer even if it never ends its body, or waits for
/// permission to send it.
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
        let answer = connection.read_reply(SOON * 2).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(
            text.starts_with("HTTP/1.1 401 "),
            "{header}, {pieces}: {text}"
        );
        assert!(start.elapsed() < SOON * 2, "{header}, {pieces}: it closes");
    }
    let mut small = nobody.over(Protocol::Http1).raw().await.expect("connect");
    let request = "POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody";
    for _ in 0..2 {
        small
            .write(request.as_bytes())
            .await
            .expect("the connection lives on");
        let answer = small.read_reply(QUIET).await;
        assert!(answer.starts_with(b"HTTP/1.1 401 "));
    }
}

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
            let answer = connection.read_reply(Duration::from_secs(3)).await;
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
            // Over HTTP/1.1 a server that refuses a body may close before the client
            // has read the answer. A try with that result proves nothing and is
            // repeated.
            let answered = |client: Client| async move {
                let tries = match protocol {
                    Protocol::Http1 if code == 413 => 10,
                    _ => 1,
                };
                let mut failures = Vec::new();
                for _ in 0..tries {
                    match send(&client).await {
                        Ok(answer) => return answer,
                        Err(failure) => failures.push(failure.to_string()),
                    }
                }
                panic!("{size} bytes, {protocol:?}: {failures:?}")
            };
            let expected = answered(direct.clone()).await;
            let got = answered(front.clone()).await;
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
    // This body has no Content-Length.
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
    let answer = connection.read_reply(Duration::from_secs(1)).await;
    let (head, _) = split(&answer);
    assert!(head.starts_with("http/1.1 201"), "{head}");
}
