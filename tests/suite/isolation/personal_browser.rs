//! Tests `apifront --kubeconfig FILE` on a machine with a browser: web pages must
//! not be able to act as the owner. The same holds for the observability port.

use http::{Method, Request};
use std::sync::Arc;
use tokio::net::TcpStream;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::kubectl::Kubectl;
use crate::harness::process;
use crate::harness::raw::RawConnection;
use crate::harness::scripted::{Connection, Scripted};
use crate::harness::shared::Shared;

const QUIET: std::time::Duration = std::time::Duration::from_millis(300);
const PROXIED: &str = "/api/v1/namespaces/default/pods/evil/proxy/";

fn personal() -> Arc<Apifront> {
    static PERSONAL: Shared<Apifront> = Shared::new();
    PERSONAL.get(|| async {
        let cluster = Cluster::shared();
        let folder = process::temporary_folder("browser");
        let who = Credential::Token("token-of-root");
        let server = cluster.server_url();
        let config = kubeconfig::write(&folder, "browser", &server, Some(cluster.ca()), who);
        Apifront::personal_with_flags(&config, &[]).await
    })
}

fn origin(front: &Apifront) -> String {
    format!("http://localhost:{}", front.address.port())
}

#[tokio::test]
async fn pages_that_send_no_origin_were_the_owner() {
    skip_under_oracle!("kube-apiserver has no personal mode");
    let front = personal();
    let plain = Client::plain(front.address);
    let (own, other) = (origin(&front), front.address.port() ^ 1);
    let other_port = format!("http://localhost:{other}");
    let other_host = format!("localhost:{other}");
    let own_referer = format!("{own}/api/v1/namespaces");
    for (name, value, expected) in [
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "same-origin", 200),
        ("sec-fetch-site", "none", 200),
        ("origin", own.as_str(), 200),
        ("origin", &other_port, 403),
        ("origin", &own.replace("http", "https"), 403),
        ("origin", "http://localhost", 403),
        ("origin", "null", 403),
        ("referer", "https://evil.example/", 403),
        ("referer", &own_referer, 200),
        ("host", &other_host, 403),
        ("host", "evil.example", 403),
        ("user-agent", "curl/8.0", 200),
    ] {
        for path in [
            "/api/v1/namespaces?resourceVersion=0",
            "/version",
            "/metrics",
        ] {
            let answer = plain.send(Method::GET, path, &[(name, value)], "").await;
            assert_eq!(answer.status, expected, "{path} {name}: {value}");
        }
    }
    // A page may send this request without a preflight.
    let form = [
        ("sec-fetch-site", "cross-site"),
        ("content-type", "text/plain"),
    ];
    let answer = plain
        .send(Method::POST, "/api/v1/namespaces", &form, "{}")
        .await;
    assert_eq!(answer.status, 403);
}

/// Tests WebSockets, HTTP/2, and a target that names another host.
#[tokio::test]
async fn pages_were_the_owner_by_other_ways_in() {
    skip_under_oracle!("kube-apiserver has no personal mode");
    let front = personal();
    let port = front.address.port();
    for (origin, expected) in [("http://localhost:1", "403"), (&origin(&front), "101")] {
        let stream = TcpStream::connect(front.address).await.expect("connect");
        let mut raw = RawConnection::new(stream);
        let handshake = format!(
            "GET /api/v1/namespaces?watch=1&resourceVersion=0 HTTP/1.1\r\nHost: localhost:{port}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: {origin}\r\n\r\n"
        );
        raw.write(handshake.as_bytes()).await.expect("sent");
        let answer = raw.read_reply(QUIET).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected}")),
            "{answer}"
        );
    }
    for target in [
        "http://evil.example/version",
        "http://evil.example:80/version",
    ] {
        let stream = TcpStream::connect(front.address).await.expect("connect");
        let mut raw = RawConnection::new(stream);
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
        raw.write(request.as_bytes()).await.expect("sent");
        let answer = raw.read_reply(QUIET).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 4"), "{target}: {answer}");
    }
    for (authority, site, expected) in [
        (format!("localhost:{port}"), "none", 200),
        (format!("localhost:{port}"), "same-site", 403),
        (format!("evil.example:{port}"), "none", 403),
    ] {
        let stream = TcpStream::connect(front.address).await.expect("connect");
        let (mut send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let request = Request::get(format!("http://{authority}/version"))
            .header("sec-fetch-site", site)
            .body(())
            .expect("a request");
        let (response, _) = send.send_request(request, true).expect("sent");
        let response = response.await.expect("an answer");
        assert_eq!(response.status(), expected, "{authority} {site}");
    }
}

async fn pod(mut connection: Connection) {
    while let Some(request) = connection.next().await {
        let kind = match request.line.contains("/proxy/") {
            true => "text/html",
            false => "application/json",
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\
             Content-Security-Policy: default-src *\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        connection.write(answer.as_bytes()).await;
    }
}

/// A page served by a pod must not get the API's origin.
#[tokio::test]
async fn a_pods_page_was_the_owner() {
    skip_under_oracle!("kube-apiserver has no personal mode");
    let scripted = Scripted::start(pod).await;
    let folder = process::temporary_folder("pod");
    let config = kubeconfig::write(&folder, "pod", &scripted.url(), None, Credential::None);
    let front = Apifront::personal(&config).await;
    let plain = Client::plain(front.address);
    // pingora forwards one of the answers, one refuses an upgrade, and apifront
    // itself streams one.
    let page = format!("{PROXIED}index.html");
    let follow = "/api/v1/namespaces/default/pods/evil/log?follow=1".to_owned();
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    for (path, headers, sandboxed) in [
        (&page, &[][..], true),
        (&page, &upgrade[..], true),
        (&follow, &[][..], false),
    ] {
        let answer = plain.send(Method::GET, path, headers, "").await;
        let policies = answer.headers.get_all("content-security-policy");
        let policies: Vec<_> = policies.iter().map(|p| p.as_bytes()).collect();
        let found = policies.contains(&&b"sandbox"[..]);
        assert_eq!(found, sandboxed, "{path} {policies:?}");
        assert!(policies.contains(&&b"default-src *"[..]), "{path}");
    }
    // Requests of such a page have these headers.
    let from_page = [("sec-fetch-site", "cross-site"), ("origin", "null")];
    let answer = plain
        .send(Method::GET, "/api/v1/secrets", &from_page, "")
        .await;
    assert_eq!(answer.status, 403);
    front.stop().await;
}

#[tokio::test]
async fn kubectl_and_curl_are_the_owner() {
    skip_under_oracle!("kube-apiserver has no personal mode");
    let front = personal();
    let folder = process::temporary_folder("owner");
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("http://{host}:{}", front.address.port());
        let config = kubeconfig::write(&folder, host, &url, None, Credential::None);
        let kubectl = Kubectl::new(&config);
        let printed = kubectl.run(&["get", "namespaces", "-o", "name"]).await.ok();
        assert!(printed.contains("namespace/default\n"), "{printed}");
        let name = crate::harness::cluster::unique("browser");
        kubectl.run(&["create", "namespace", &name]).await.ok();
        kubectl
            .run(&["delete", "namespace", &name, "--wait=false"])
            .await
            .ok();
    }
}

#[tokio::test]
async fn the_observability_port_answered_any_host() {
    skip_under_oracle!("kube-apiserver has no personal mode");
    let front = Apifront::shared();
    let plain = Client::plain(front.observability);
    let (host, port) = ("host", front.observability.port());
    for (name, value, expected) in [
        (host, format!("localhost:{port}"), 200),
        (host, format!("127.0.0.1:{port}"), 200),
        // kubectl port-forward may listen on another port.
        (host, "localhost:19443".to_owned(), 200),
        (host, format!("evil.example:{port}"), 403),
        ("origin", "http://localhost:3000".to_owned(), 403),
        ("origin", format!("http://127.0.0.1:{port}"), 200),
        ("sec-fetch-site", "same-site".to_owned(), 403),
        ("sec-fetch-site", "cross-site".to_owned(), 403),
        // Prometheus sends this header.
        (
            "accept",
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5".to_owned(),
            200,
        ),
    ] {
        for path in ["/metrics", "/debug/cache", "/livez"] {
            let answer = plain.send(Method::GET, path, &[(name, &value)], "").await;
            assert_eq!(answer.status, expected, "{path} {name}: {value}");
        }
    }
    for (method, expected) in [
        (Method::HEAD, 200),
        (Method::POST, 405),
        (Method::DELETE, 405),
        (Method::OPTIONS, 405),
    ] {
        let answer = plain.send(method.clone(), "/metrics", &[], "").await;
        assert_eq!(answer.status, expected, "{method}");
        if expected == 405 {
            assert_eq!(answer.header("allow"), "GET, HEAD");
        }
    }
}
