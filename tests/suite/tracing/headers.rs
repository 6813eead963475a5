//! Tests the tracing headers that the upstream receives.

use std::time::Duration;

use http::Method;

use super::world::{Parent, tracing_file};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::ports;
use crate::harness::process::temporary_folder;
use crate::harness::scripted::{Scripted, Seen};

const STATE: &str = "vendor=1,other=a:b";
const BAGGAGE: &str = "key=value;property,other=%20";

/// The ways to forward a request: by pingora, as a stream, and as a tunnel.
const WAYS: [(&str, &[(&str, &str)]); 3] = [
    ("/apis/example.com/v1/things/a?of=pingora", &[]),
    ("/api/v1/namespaces/a/pods/b/log", &[]),
    (
        "/api/v1/namespaces/a/pods/b/exec?command=true",
        &[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")],
    ),
];

/// Returns the upstream's requests, in the order of [`WAYS`].
async fn forwarded(flags: &[&str], headers: &[(&str, &str)]) -> Vec<Seen> {
    let scripted = Scripted::start(|mut connection| async move {
        while connection.next().await.is_some() {
            connection.answer("200 OK", "fine").await;
        }
    })
    .await;
    let folder = temporary_folder("scripted");
    let config = kubeconfig::write(&folder, "s", &scripted.url(), None, Credential::None);
    let front = Apifront::personal_alive(&config, flags).await;
    let client = Client::plain(front.address);
    let mut seen = Vec::new();
    for (path, more) in WAYS {
        let headers: Vec<_> = headers.iter().chain(more).copied().collect();
        let answer = client.try_send(Method::GET, path, &headers, "");
        let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
        let answer = answer.expect("an answer").expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let line = format!("GET {path}");
        let found = scripted.seen().into_iter().find(|s| s.line == line);
        seen.push(found.unwrap_or_else(|| panic!("{line} in {:?}", scripted.seen())));
    }
    seen
}

#[tokio::test]
async fn without_tracing_the_headers_stay_as_they_are() {
    skip_under_oracle!("kube-apiserver forwards nothing");
    // apifront does not interpret these, so malformed ones stay too.
    for parent in [&*Parent::new().header("01"), "no parent"] {
        let headers = [
            ("traceparent", parent),
            ("tracestate", STATE),
            ("baggage", BAGGAGE),
        ];
        for seen in forwarded(&[], &headers).await {
            for (name, value) in headers {
                assert_eq!(seen.header(name), Some(value), "{}", seen.line);
            }
        }
    }
    for seen in forwarded(&[], &[]).await {
        for name in ["traceparent", "tracestate", "baggage"] {
            assert_eq!(seen.header(name), None, "{}", seen.line);
        }
    }
}

#[tokio::test]
async fn with_tracing_upstream_follows_apifront() {
    skip_under_oracle!("kube-apiserver forwards nothing");
    let folder = temporary_folder("tracing");
    // No collector listens there. That makes no difference.
    let endpoint = ports::loopback(ports::free()).to_string();
    let file = tracing_file(&folder, &endpoint, 0);
    let flag = format!("--tracing-config-file={}", file.display());
    for flags in ["00", "01"] {
        let parent = Parent::new();
        let headers = [
            ("traceparent", &*parent.header(flags)),
            ("tracestate", STATE),
            ("baggage", BAGGAGE),
        ];
        for seen in forwarded(&[&flag], &headers).await {
            let got = seen.header("traceparent").expect("a parent");
            let beginning = format!("00-{}-", parent.trace);
            assert!(got.starts_with(&beginning), "{got}, {}", seen.line);
            assert!(got.ends_with(&format!("-{flags}")), "{got}, {}", seen.line);
            assert!(!got.contains(&parent.span), "{got}, {}", seen.line);
            assert_eq!(seen.header("tracestate"), Some(STATE), "{}", seen.line);
            assert_eq!(seen.header("baggage"), Some(BAGGAGE), "{}", seen.line);
        }
    }
    // An unreadable parent counts as none, and its state is dropped with it.
    let headers = [("traceparent", "no parent"), ("tracestate", STATE)];
    for seen in forwarded(&[&flag], &headers).await {
        let got = seen.header("traceparent").expect("a parent");
        assert!(got.ends_with("-00"), "{got}");
        assert_eq!(seen.header("tracestate"), None, "{}", seen.line);
    }
}
