//! Unusual requests and answers are passed on unchanged.

use http::Method;

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
