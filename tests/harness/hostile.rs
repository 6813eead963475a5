//! An API server with one honest resource and many that misbehave, each in the
//! way that its name says. It speaks plain HTTP/1.1 on loopback, as
//! [`Scripted`] does.
//!
//! Callers' own requests, which have an Audit-ID, are answered at once and
//! correctly. Only requests that apifront itself makes meet misbehaviour.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::scripted::{Connection, Scripted, Seen};

/// The group of all resources. Its name has no dot, so apifront looks for no
/// CustomResourceDefinition.
pub const GROUP: &str = "hostile";
pub const HONEST: &str = "honest";

/// The misbehaving resources. Those named `list-…` refuse initial events, so
/// apifront lists them.
pub const HOSTILE: [&str; 17] = [
    "endless-events",
    "repeated-events",
    "endless-line",
    "garbage-event",
    "event-drip",
    "early-close",
    "silent-events",
    "list-endless-body",
    "list-endless-pages",
    "list-repeated-token",
    "list-empty-pages",
    "list-empty-items",
    "list-wrong-length",
    "list-garbage",
    "list-drip",
    "list-endless-headers",
    "list-endless-gone",
];

/// The hostile server. It has its own thread: clients that measure how others fare
/// must not wait for it.
pub struct Hostile {
    pub server: Scripted,
    /// The number of bytes sent in endless answers.
    pub sent: Arc<AtomicUsize>,
    runtime: Option<Runtime>,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

const MEGABYTE: usize = 1 << 20;
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";

impl Hostile {
    pub async fn start() -> Self {
        Self::with_documents(false).await
    }

    /// Starts the server. If `endless`, its discovery and OpenAPI documents have no
    /// end either.
    pub async fn with_documents(endless: bool) -> Self {
        let sent = Arc::new(AtomicUsize::new(0));
        let all = sent.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let handle = runtime.handle().clone();
        let server = Scripted::start(move |connection| {
            let served = handle.spawn(serve(connection, all.clone(), endless));
            async move {
                // This fails when the runtime has ended.
                let _ = served.await;
            }
        })
        .await;
        Self {
            server,
            sent,
            runtime: Some(runtime),
        }
    }

    pub fn path(resource: &str) -> String {
        format!("/apis/{GROUP}/v1/{resource}")
    }
}

async fn serve(mut connection: Connection, sent: Arc<AtomicUsize>, endless: bool) {
    while let Some(request) = connection.next_of_any().await {
        let mut attack = Attack {
            connection: &mut connection,
            sent: &sent,
            endless,
        };
        if attack.answer(&request).await.is_none() {
            return;
        }
    }
}

struct Attack<'a> {
    connection: &'a mut Connection,
    sent: &'a AtomicUsize,
    /// Whether discovery and OpenAPI documents have no end.
    endless: bool,
}

impl Attack<'_> {
    /// Answers one request. `None` closes the connection.
    async fn answer(&mut self, request: &Seen) -> Option<()> {
        let target = request.line.split(' ').nth(1)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if path == "/readyz" {
            return self.reply(200, "ok").await;
        }
        if path == format!("/apis/{GROUP}/v1") {
            return self.reply(200, &resources()).await;
        }
        if self.endless && (path == "/apis" || path.starts_with("/openapi")) {
            self.write(CHUNKED).await?;
            self.chunk("{\"kind\":\"").await?;
            loop {
                self.much(&"x".repeat(MEGABYTE)).await?;
            }
        }
        let Some(name) = path.strip_prefix(&Hostile::path("")) else {
            return self.reply(404, "no").await;
        };
        let callers = request.header("audit-id").is_some();
        let table = request
            .header("accept")
            .is_some_and(|a| a.contains("as=Table"));
        if table && !callers {
            return self.reply(406, "no tables here").await;
        }
        let initial = query.contains("sendInitialEvents");
        let watch = query.contains("watch=");
        if callers || query.contains("limit=1&") || query.ends_with("limit=1") {
            return self.reply(200, &list("7", "", &[])).await;
        }
        if initial && (name.starts_with("list-") || query.contains("fieldSelector")) {
            return self.reply(422, "sendInitialEvents is forbidden").await;
        }
        if watch && !initial {
            self.write(CHUNKED).await?;
            return std::future::pending().await;
        }
        match name {
            HONEST => {
                self.write(CHUNKED).await?;
                self.chunk(&event("ADDED", "a", 0)).await?;
                self.chunk(&end()).await?;
                std::future::pending().await
            }
            name if initial => self.events(name).await,
            name => self.list(name, query).await,
        }
    }

    async fn events(&mut self, name: &str) -> Option<()> {
        self.write(CHUNKED).await?;
        match name {
            "endless-events" => loop {
                let name = self.sent.fetch_add(0, Ordering::Relaxed).to_string();
                self.much(&event("ADDED", &name, MEGABYTE)).await?;
            },
            "repeated-events" => loop {
                self.much(&event("MODIFIED", "same", MEGABYTE)).await?;
                crate::pace::of_tries(Duration::from_millis(20)).await;
            },
            "endless-line" => {
                self.chunk("{\"type\":\"ADDED\",\"object\":{\"x\":\"")
                    .await?;
                loop {
                    self.much(&"x".repeat(MEGABYTE)).await?;
                }
            }
            "garbage-event" => self.chunk("{\"type\":7,\"object\":[[[\0\n").await,
            "event-drip" => {
                for byte in event("ADDED", "slow", 10_000).chars().cycle() {
                    self.chunk(&byte.to_string()).await?;
                    crate::pace::of_tries(Duration::from_millis(50)).await;
                }
                None
            }
            "early-close" => {
                self.chunk("{\"type\":\"ADD").await?;
                None
            }
            _ => std::future::pending().await,
        }
    }

    async fn list(&mut self, name: &str, query: &str) -> Option<()> {
        let of_page = |n: usize| format!("of-page-{n}");
        match name {
            "list-endless-body" => {
                self.write(CHUNKED).await?;
                self.chunk("{\"kind\":\"ThingList\",\"apiVersion\":\"hostile/v1\",\"x\":\"")
                    .await?;
                loop {
                    self.much(&"x".repeat(MEGABYTE)).await?;
                }
            }
            "list-endless-pages" => {
                let n = self.sent.fetch_add(4 * MEGABYTE, Ordering::Relaxed);
                let items: Vec<String> = (0..4)
                    .map(|i| thing(&format!("{n}-{i}"), MEGABYTE))
                    .collect();
                self.reply(200, &list("7", &of_page(n), &items)).await
            }
            "list-repeated-token" => {
                let items = [thing("same", 10)];
                self.reply(200, &list("7", "again", &items)).await
            }
            "list-empty-pages" => {
                let n = self.sent.fetch_add(1, Ordering::Relaxed);
                self.reply(200, &list("7", &of_page(n), &[])).await
            }
            "list-empty-items" => {
                let items = "{},".repeat(5 * MEGABYTE) + "{}";
                self.reply(200, &list("7", "", &[items])).await
            }
            "list-wrong-length" => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{";
                self.write(head).await?;
                None
            }
            "list-garbage" => self.reply(200, "{\"kind\":[[[[\u{1}").await,
            "list-drip" => {
                self.write(CHUNKED).await?;
                loop {
                    self.chunk(" ").await?;
                    crate::pace::of_tries(Duration::from_millis(50)).await;
                }
            }
            "list-endless-headers" => {
                self.write("HTTP/1.1 200 OK\r\n").await?;
                loop {
                    let line = format!("x-{}: {}\r\n", "n".repeat(100), "v".repeat(10_000));
                    self.write(&line).await?;
                }
            }
            "list-endless-gone" if query.contains("continue=") => {
                crate::pace::of_tries(Duration::from_millis(10)).await;
                let status = r#"{"kind":"Status","code":410,"message":"too old"}"#;
                self.reply(410, status).await
            }
            "list-endless-gone" => self.reply(200, &list("7", "old", &[thing("a", 1)])).await,
            _ => self.reply(404, "no").await,
        }
    }

    async fn reply(&mut self, code: u16, body: &str) -> Option<()> {
        let length = body.len();
        self.write(&format!(
            "HTTP/1.1 {code} As Told\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    async fn chunk(&mut self, text: &str) -> Option<()> {
        self.write(&format!("{:x}\r\n{text}\r\n", text.len())).await
    }

    /// Writes one of many chunks and counts its bytes.
    async fn much(&mut self, text: &str) -> Option<()> {
        self.chunk(text).await?;
        self.sent.fetch_add(text.len(), Ordering::Relaxed);
        Some(())
    }

    async fn write(&mut self, text: &str) -> Option<()> {
        self.connection.try_write(text).await.ok()
    }
}

fn resources() -> String {
    let names = HOSTILE.iter().chain([&HONEST]);
    let resources: Vec<String> = names
        .map(|name| {
            format!(
                r#"{{"name":"{name}","singularName":"","namespaced":false,"kind":"Thing","verbs":["get","list","watch"]}}"#
            )
        })
        .collect();
    format!(
        r#"{{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"{GROUP}/v1","resources":[{}]}}"#,
        resources.join(",")
    )
}

fn thing(name: &str, bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!(
        r#"{{"apiVersion":"{GROUP}/v1","kind":"Thing","metadata":{{"name":"{name}","resourceVersion":"5"}},"text":"{text}"}}"#
    )
}

fn list(version: &str, token: &str, items: &[String]) -> String {
    let items = items.join(",");
    format!(
        r#"{{"apiVersion":"{GROUP}/v1","items":[{items}],"kind":"ThingList","metadata":{{"continue":"{token}","resourceVersion":"{version}"}}}}"#
    )
}

fn event(kind: &str, name: &str, bytes: usize) -> String {
    let thing = thing(name, bytes);
    format!("{{\"type\":\"{kind}\",\"object\":{thing}}}\n")
}

fn end() -> String {
    format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"apiVersion\":\"{GROUP}/v1\",\"kind\":\"Thing\",\"metadata\":{{\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}},\"resourceVersion\":\"7\"}}}}}}\n"
    )
}
