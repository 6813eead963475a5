//! The heads of all kinds of answers, as they are written to a connection.

use std::collections::BTreeMap;

use serde_json::json;

use crate::browsers::{ALLOWED, ORIGINS, servers_for_browsers};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::scripted::{Connection, Scripted};
use crate::websocket_watch::handshake;

const CACHE_PART: &str = "X-Apifront-Cache";

/// A kind of answer: a request for it, and what the head must have besides its own
/// headers.
struct Kind {
    name: &'static str,
    target: &'static str,
    is_websocket: bool,
    /// The beginning of `X-Apifront-Cache`.
    part: &'static str,
    /// Whether the head has the headers of all of kube-apiserver's answers.
    is_common: bool,
    is_for_browsers: bool,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "whole",
        target: "/api/v1/namespaces?resourceVersion=0",
        is_websocket: false,
        part: "hit; rv=",
        is_common: true,
        is_for_browsers: true,
    },
    Kind {
        name: "failure",
        target: "/api/v1/namespaces/none?resourceVersion=0",
        is_websocket: false,
        part: "hit; rv=",
        is_common: true,
        is_for_browsers: true,
    },
    Kind {
        name: "watch",
        target: "/api/v1/namespaces?watch=1&timeoutSeconds=1&resourceVersion=0",
        is_websocket: false,
        part: "hit; rv=",
        is_common: true,
        is_for_browsers: true,
    },
    Kind {
        name: "WebSocket watch",
        target: "/api/v1/namespaces?watch=1&timeoutSeconds=1&resourceVersion=0",
        is_websocket: true,
        part: "hit; rv=",
        is_common: false,
        is_for_browsers: false,
    },
    Kind {
        name: "forwarded",
        target: "/api/v1/events?limit=1",
        is_websocket: false,
        part: "bypass; reason=",
        is_common: true,
        is_for_browsers: true,
    },
    Kind {
        name: "forwarded stream",
        target: "/api/v1/events?watch=1&timeoutSeconds=2",
        is_websocket: false,
        part: "bypass; reason=",
        is_common: true,
        is_for_browsers: true,
    },
];

fn request(target: &str, is_websocket: bool) -> String {
    let extra = [("Origin", ALLOWED), ("X-Apifront-Debug", "cache")];
    match is_websocket {
        true => handshake(target, &extra),
        false => {
            let lines = extra.map(|(name, value)| format!("{name}: {value}\r\n"));
            let lines = lines.concat();
            format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n")
        }
    }
}

/// Returns the status line, and the headers with their names as they were written.
async fn head(client: &Client, request: &str) -> (String, BTreeMap<String, Vec<String>>) {
    let mut connection = client.raw().await.expect("a connection");
    connection.write(request.as_bytes()).await.expect("written");
    let answer = connection.read_answer().await;
    let answer = String::from_utf8_lossy(&answer);
    let (head, _) = answer.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.split("\r\n");
    let status = lines.next().expect("a status line").to_owned();
    let mut headers = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        headers
            .entry(name.to_owned())
            .or_default()
            .push(value.to_owned());
    }
    (status, headers)
}

#[tokio::test]
async fn each_kind_of_answer_has_its_headers() {
    skip_under_oracle!("it needs a kube-apiserver with flags of its own");
    let (cluster, front) = servers_for_browsers().await;
    let (direct, through) = (cluster.admin_client(), front.admin_client());
    for kind in &KINDS {
        let request = request(kind.target, kind.is_websocket);
        let (theirs, ours) = tokio::join!(head(&direct, &request), head(&through, &request));
        let ((expected, mut theirs), (status, mut ours)) = (theirs, ours);
        let name = kind.name;
        if !kind.is_websocket {
            // Each server decides how its bodies and connections end.
            for framing in ["Connection", "Content-Length", "Transfer-Encoding"] {
                theirs.remove(framing);
                ours.remove(framing);
            }
        }
        assert_eq!(status, expected, "{name}");
        let part = ours.remove(CACHE_PART).expect(name).concat();
        assert!(part.starts_with(kind.part), "{name}: {part}");
        let counts = |headers: &BTreeMap<String, Vec<String>>| -> Vec<_> {
            let count = |(name, values): (&String, &Vec<String>)| (name.clone(), values.len());
            headers.iter().map(count).collect()
        };
        assert_eq!(counts(&ours), counts(&theirs), "{name}");
        for common in [
            "Audit-Id",
            "Cache-Control",
            "X-Kubernetes-Pf-Flowschema-Uid",
            "X-Kubernetes-Pf-Prioritylevel-Uid",
        ] {
            assert_eq!(
                ours.contains_key(common),
                kind.is_common,
                "{name}: {common}"
            );
        }
        for for_browsers in ["Access-Control-Allow-Origin", "Strict-Transport-Security"] {
            let has = ours.contains_key(for_browsers);
            assert_eq!(has, kind.is_for_browsers, "{name}: {for_browsers}");
        }
    }
    front.stop().await;
}

/// A tunnel has no headers but those of its server.
#[tokio::test]
async fn the_head_of_a_tunnel_is_that_of_its_server() {
    skip_under_oracle!("kube-apiserver has no upstream");
    let upstream = Scripted::start(|mut connection: Connection| async move {
        while connection.next().await.is_some() {
            connection
                .write(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                     Connection: Upgrade\r\nSec-WebSocket-Accept: s\r\nX-Own: o\r\n\r\n",
                )
                .await;
        }
    })
    .await;
    let cluster = Cluster::shared();
    let front = Apifront::start_directly(cluster, |config| {
        config["upstream"] = json!({ "servers": [upstream.url()], "caFile": cluster.ca() });
        config["serving"]["corsAllowedOrigins"] = json!([ORIGINS]);
    })
    .await;
    let request = request("/api/v1/namespaces/default/pods/p/exec?command=true", true);
    let (status, headers) = head(&front.admin_client(), &request).await;
    assert_eq!(status, "HTTP/1.1 101 Switching Protocols");
    let names: Vec<&str> = headers.keys().map(String::as_str).collect();
    let expected = ["Connection", "Sec-WebSocket-Accept", "Upgrade", "X-Own"];
    assert_eq!(names, expected);
    front.stop().await;
}
