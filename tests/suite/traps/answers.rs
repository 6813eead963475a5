//! Unusual requests and answers pass unchanged.

use http::Method;
use http_body_util::BodyExt;

use super::{both, echo_leftover, personal_before};
use crate::harness::apifront::oracle;
use crate::harness::client::{Client, Protocol};
use crate::harness::scripted::Scripted;

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

/// A dying server ends its watches. Their clients continue from the last event, so a
/// watch ends in order after a whole event. A log, and a watch in the middle of an
/// event, do not end in order.
#[tokio::test]
async fn a_watch_whose_server_dies_ends_after_a_whole_event() {
    skip_under_oracle!("kube-apiserver has no upstream");
    let event = r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"7"}}}"#;
    let scripted = Scripted::start(move |mut connection| async move {
        // The server closes the connection before the last chunk.
        if let Some(seen) = connection.next().await {
            let (kind, body) = if seen.line.contains("/log") {
                ("text/plain", "a line\n".to_owned())
            } else if seen.line.contains("half") {
                ("application/json", format!("{event}\n{{\"type\":"))
            } else {
                ("application/json", format!("{event}\n"))
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n"
            );
            connection.write(answer).await;
        }
    })
    .await;
    let front = personal_before(&scripted).await;
    let client = Client::plain(front.address);
    let pods = "/api/v1/namespaces/default/pods";
    for (path, whole, text) in [
        (format!("{pods}?watch=1"), true, format!("{event}\n")),
        (
            format!("{pods}?watch=1&fieldSelector=metadata.name%3Dhalf"),
            false,
            format!("{event}\n{{\"type\":"),
        ),
        (
            format!("{pods}/p/log?follow=true"),
            false,
            "a line\n".to_owned(),
        ),
    ] {
        let answer = client.open(&path, &[]).await;
        let mut body = answer.into_body();
        let mut read = Vec::new();
        let in_order = loop {
            match body.frame().await {
                None => break true,
                Some(Err(_)) => break false,
                Some(Ok(frame)) => read.extend(frame.into_data().unwrap_or_default()),
            }
        };
        assert_eq!(String::from_utf8_lossy(&read), text, "{path}");
        assert_eq!(in_order, whole, "{path}");
    }
    front.stop().await;
}
