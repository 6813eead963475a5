//! A forwarded request has the same effect on the cluster as a direct one.
//!
//! Each request goes to kube-apiserver and to apifront, each time about a different
//! object. The statuses and the remaining objects must be equal.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::raw::RawConnection;

const SOON: Duration = Duration::from_secs(20);
const UID: &str = "00000000-0000-0000-0000-000000000000";

/// Header fields that ask for another protocol, which kube-apiserver does not speak.
const UPGRADES: [(&str, &[&str]); 7] = [
    ("no upgrade", &[]),
    (
        "h2c",
        &[
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
        ],
    ),
    ("websocket", &["Connection: Upgrade", "Upgrade: websocket"]),
    ("TLS", &["Connection: Upgrade", "Upgrade: TLS/1.2"]),
    ("nothing", &["Connection: Upgrade", "Upgrade:"]),
    (
        "keep-alive",
        &["Connection: keep-alive, Upgrade", "Upgrade: foo"],
    ),
    ("expectation", &["Expect: 100-continue"]),
];

/// A server, and a namespace for its requests.
struct Side {
    client: Client,
    configmaps: String,
}

impl Side {
    async fn new(client: Client) -> Self {
        let namespace = Cluster::shared().namespace("faithful").await;
        Self {
            client: client.over(Protocol::Http1),
            configmaps: format!("/api/v1/namespaces/{namespace}/configmaps"),
        }
    }

    /// Sends a request byte for byte. Returns the status of the final answer, and
    /// whether the connection then takes another request.
    async fn ask(&self, request: &[u8]) -> (u16, bool) {
        let mut connection = self.client.raw().await.expect("a connection");
        connection.write(request).await.expect("written");
        let mut answer = String::new();
        while answer.is_empty() || answer.starts_with("HTTP/1.1 100 ") {
            answer = next_answer(&mut connection).await;
        }
        let status = answer.get(9..12).and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {answer:?}"));
        let again = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
        let lives =
            connection.write(again).await.is_ok() && !connection.read_answer().await.is_empty();
        (status, lives)
    }

    /// Returns the names, labels and data of the remaining objects.
    async fn state(&self) -> Value {
        let list = self.client.get(&self.configmaps).await.json();
        let items = list["items"].as_array().expect("items");
        let kept = items.iter().map(|item| {
            json!([
                item["metadata"]["name"],
                item["metadata"]["labels"],
                item["data"]
            ])
        });
        kept.filter(|item| item[0] != "kube-root-ca.crt").collect()
    }

    async fn create(&self) {
        for name in ["victim", "other"] {
            let object = config_map(name, json!({ "v": "1" }), json!({ "a": "b" }));
            let json = [("content-type", "application/json")];
            let body = object.to_string();
            let path = &self.configmaps;
            let _already_there = self.client.send(Method::POST, path, &json, body).await;
        }
    }
}

async fn next_answer(connection: &mut RawConnection) -> String {
    let answer = tokio::time::timeout(SOON, connection.read_answer()).await;
    let answer = answer.expect("an answer in time");
    assert!(!answer.is_empty(), "the connection was closed");
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(line: &str, fields: &[&str], body: &str, chunked: bool) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\nHost: x\r\n");
    for field in fields {
        text += &format!("{field}\r\n");
    }
    if !body.is_empty() {
        text += "Content-Type: application/json\r\n";
        text += &match chunked {
            false => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            true => {
                let (a, b) = body.split_at(body.len() / 2);
                format!(
                    "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\n\r\n",
                    a.len(),
                    b.len()
                )
            }
        };
    } else {
        text += "\r\n";
    }
    text.into_bytes()
}

fn options(more: &Value) -> String {
    let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
    for (name, value) in more.as_object().expect("an object") {
        options[name] = value.clone();
    }
    options.to_string()
}

/// Sends both servers the same requests, and compares the results.
struct Both {
    direct: Side,
    front: Side,
    wrong: Vec<String>,
    asked: usize,
}

impl Both {
    async fn new() -> Self {
        Self {
            direct: Side::new(Cluster::shared().admin_client()).await,
            front: Side::new(Apifront::shared().admin_client()).await,
            wrong: Vec::new(),
            asked: 0,
        }
    }

    async fn ask(&mut self, what: &str, request: impl Fn(&str) -> Vec<u8>) {
        let mut outcomes = Vec::new();
        for side in [&self.direct, &self.front] {
            side.create().await;
            let answered = side.ask(&request(&side.configmaps)).await;
            outcomes.push((answered, side.state().await));
        }
        self.asked += 1;
        if outcomes[0] != outcomes[1] {
            self.wrong.push(format!("{what}: {outcomes:?}"));
        }
    }

    fn finish(self) {
        assert!(
            self.wrong.is_empty(),
            "{} of {}: {:#?}",
            self.wrong.len(),
            self.asked,
            self.wrong
        );
    }
}

#[tokio::test]
async fn bodies_arrive_whatever_upgrade_is_asked_for() {
    let mut both = Both::new().await;
    let dry = options(&json!({ "dryRun": ["All"] }));
    let other_uid = options(&json!({ "preconditions": { "uid": UID } }));
    let replaced = config_map("victim", json!({ "v": "2" }), json!({ "a": "c" })).to_string();
    let created = config_map("created", json!({}), json!({})).to_string();
    let patch = r#"{"data":{"a":"d"}}"#;
    let merge = "Content-Type: application/merge-patch+json";
    for (upgrade, fields) in UPGRADES {
        for chunked in [false, true] {
            for (what, method, target, body) in [
                ("delete in dry run", "DELETE", "/victim", &dry),
                ("delete of another uid", "DELETE", "/victim", &other_uid),
                (
                    "delete of a selection in dry run",
                    "DELETE",
                    "?labelSelector=v%3D1",
                    &dry,
                ),
                ("replace in dry run", "PUT", "/victim?dryRun=All", &replaced),
                ("replace", "PUT", "/victim", &replaced),
                ("create in dry run", "POST", "?dryRun=All", &created),
                ("delete", "DELETE", "/victim", &String::new()),
                ("read with a body", "GET", "/victim", &dry),
            ] {
                let what = format!("{what}, {upgrade}, chunked {chunked}");
                both.ask(&what, |configmaps| {
                    request(
                        &format!("{method} {configmaps}{target}"),
                        fields,
                        body,
                        chunked,
                    )
                })
                .await;
            }
            let what = format!("patch, {upgrade}, chunked {chunked}");
            both.ask(&what, |configmaps| {
                let patch = request(
                    &format!("PATCH {configmaps}/victim"),
                    fields,
                    patch,
                    chunked,
                );
                let text = String::from_utf8(patch).expect("text");
                text.replace("Content-Type: application/json", merge)
                    .into_bytes()
            })
            .await;
        }
    }
    both.finish();
}

/// A body larger than every buffer on the way arrives, even if the request asks for
/// an upgrade.
#[tokio::test]
async fn a_large_body_arrives_beside_an_upgrade() {
    let mut both = Both::new().await;
    let data = "x".repeat(900 << 10);
    let body = config_map("victim", json!({}), json!({ "large": data })).to_string();
    for (upgrade, fields) in UPGRADES {
        both.ask(upgrade, |configmaps| {
            request(
                &format!("PUT {configmaps}/victim?dryRun=All"),
                fields,
                &body,
                true,
            )
        })
        .await;
    }
    both.finish();
}

#[tokio::test]
async fn targets_name_what_was_said() {
    let mut both = Both::new().await;
    for method in ["GET", "DELETE"] {
        for target in [
            "/victim#old",
            "/victim#",
            "#/victim",
            "?labelSelector=v%3D1#x",
            "?labelSelector=v%3D2#&labelSelector=v%3D1",
            "/victim?a=b#c",
            "/victim<",
            "/victim>\"`",
            "/victim\u{e9}",
            "/victim|^{}\\",
            "/victim?propagationPolicy=<\">`",
            "/victim%23old",
            "/victim ",
            "/victim%zz",
            "/./victim",
            "//victim",
            "/other/../victim",
        ] {
            both.ask(&format!("{method} {target}"), |configmaps| {
                request(&format!("{method} {configmaps}{target}"), &[], "", false)
            })
            .await;
        }
    }
    both.finish();
}

#[tokio::test]
async fn heads_are_taken_as_go_takes_them() {
    let mut both = Both::new().await;
    let long = format!("X-Long: {}", "x".repeat(200 << 10));
    let too_long = format!("X-Long: {}", "x".repeat(2 << 20));
    let many: Vec<_> = (0..2000).map(|n| format!("X-{n}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (what, fields) in [
        ("an expectation nobody knows", &["Expect: something"][..]),
        (
            "an unknown expectation after a known one",
            &["Expect: 100-continue", "Expect: something"],
        ),
        (
            "an unknown expectation before a known one",
            &["Expect: something", "Expect: 100-continue"],
        ),
        (
            "an unknown expectation after an empty one",
            &["Expect:", "Expect: something"],
        ),
        ("an expectation without a body", &["Expect: 100-continue"]),
        ("a folded field", &["X-A: 1", " 2"]),
        ("a long field", &[&long]),
        ("too long a field", &[&too_long]),
        ("many fields", &many),
        ("keep-alive", &["Connection: keep-alive"]),
        // pingora refuses more than nine connection options, and some single ones.
        (
            "many options of a connection",
            &["Connection: a, b, c, d, e, f, g, h, i, j, k, l, m"],
        ),
        (
            "options that no connection may have",
            &["Connection: host, :authority, \"x\", a b"],
        ),
    ] {
        both.ask(what, |configmaps| {
            request(&format!("GET {configmaps}/victim"), fields, "", false)
        })
        .await;
    }
    for authority in ["x", "x:1", "127.0.0.1:6443"] {
        both.ask(authority, |configmaps| {
            let line = format!("GET https://{authority}{configmaps}/victim");
            request(&line, &[], "", false)
        })
        .await;
    }
    both.finish();
}

#[tokio::test]
async fn pipelined_requests_are_answered() {
    let front = Apifront::shared().admin_client().over(Protocol::Http1);
    let uncached = "/api/v1/namespaces/default/configmaps/none";
    for first in ["/version", "/api/v1/namespaces?resourceVersion=0", uncached] {
        for fields in [&[][..], &["Connection: keep-alive"]] {
            let mut connection = front.raw().await.expect("a connection");
            let mut both = request(&format!("GET {first}"), fields, "", false);
            both.extend(request("GET /version", &[], "", false));
            connection.write(&both).await.expect("written");
            next_answer(&mut connection).await;
            let second = next_answer(&mut connection).await;
            assert!(second.contains("gitVersion"), "{first}: {second}");
        }
    }
}
