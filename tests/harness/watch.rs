//! The client's side of a watch.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use super::client::Client;

/// The time to wait for the next event. No pause between expected events is longer.
const NEXT: Duration = Duration::from_secs(20);

/// The media types of events: whole objects, rows and metadata.
pub const MEDIA_TYPES: [&str; 5] = [
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
];

/// One line of a JSON watch.
#[derive(Clone, Debug)]
pub struct Event {
    pub line: String,
    pub kind: String,
    pub object: Value,
}

impl Event {
    fn parse(line: &[u8]) -> Self {
        let line = String::from_utf8(line.to_vec()).expect("UTF-8");
        let mut value: Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e} in the event {line}"));
        Self {
            kind: value["type"].as_str().unwrap_or_default().to_owned(),
            object: value["object"].take(),
            line,
        }
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or("")
    }

    pub fn version(&self) -> u64 {
        self.object["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|v| v.parse().ok())
            .unwrap_or(0)
    }

    /// Returns the event in a short form such as `ADDED web-1`.
    pub fn short(&self) -> String {
        format!("{} {}", self.kind, self.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The stream ended as HTTP requires.
    Clean,
    /// The stream broke off.
    Broken,
}

pub struct Watch {
    body: Incoming,
    buffer: BytesMut,
    end: Option<End>,
}

impl Watch {
    fn new(body: Incoming) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            end: None,
        }
    }

    pub async fn open(client: &Client, path: &str) -> Self {
        Self::begun(client.open(path, &[]).await, path).await
    }

    /// Posts a question whose answer is a stream of events.
    pub async fn post(client: &Client, path: &str, body: &Value) -> Self {
        let headers = [("content-type", "application/json")];
        let open = client.try_open(http::Method::POST, path, &headers, body.to_string());
        let response = open.await.unwrap_or_else(|e| panic!("POST {path}: {e}"));
        Self::begun(response, path).await
    }

    async fn begun(response: http::Response<Incoming>, path: &str) -> Self {
        let status = response.status();
        let mut watch = Self::new(response.into_body());
        if status != 200 {
            let body = watch.rest_bytes(NEXT).await;
            panic!("{path}: {status} {}", String::from_utf8_lossy(&body));
        }
        watch
    }

    pub async fn try_open(client: &Client, path: &str) -> anyhow::Result<Self> {
        let open = client.try_open(http::Method::GET, path, &[], bytes::Bytes::new());
        let response = tokio::time::timeout(NEXT, open).await??;
        anyhow::ensure!(response.status() == 200, "{}", response.status());
        Ok(Self::new(response.into_body()))
    }

    /// Tells whether the watch's first event is a refusal. Waits for it for at most
    /// `wait`, and leaves it to be read.
    pub async fn is_refused(&mut self, wait: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + wait;
        while !self.buffer.contains(&b'\n') {
            match tokio::time::timeout_at(deadline, self.body.frame()).await {
                Ok(Some(Ok(frame))) => self.buffer.extend(frame.into_data().ok()),
                Ok(Some(Err(_)) | None) | Err(_) => return false,
            }
        }
        self.buffer.starts_with(br#"{"type":"ERROR""#)
    }

    /// Returns the next event, or how the stream ended. Fails after [`NEXT`].
    pub async fn next(&mut self) -> Result<Event, End> {
        self.next_within(NEXT)
            .await
            .unwrap_or_else(|| panic!("no event within {NEXT:?}"))
    }

    /// Does the same as [`Watch::next`], but returns `None` if nothing arrives
    /// within `wait`.
    pub async fn next_within(&mut self, wait: Duration) -> Option<Result<Event, End>> {
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            if let Some(at) = self.buffer.iter().position(|b| *b == b'\n') {
                let line = self.buffer.split_to(at);
                self.buffer.advance(1);
                return Some(Ok(Event::parse(&line)));
            }
            if let Some(end) = self.end {
                assert!(
                    self.buffer.is_empty() || end == End::Broken,
                    "half an event at a clean end"
                );
                return Some(Err(end));
            }
            match tokio::time::timeout_at(deadline, self.body.frame()).await {
                Err(_) => return None,
                Ok(None) => self.end = Some(End::Clean),
                Ok(Some(Err(_))) => self.end = Some(End::Broken),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    /// Returns the next `n` events, without bookmarks.
    pub async fn take(&mut self, n: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < n {
            match self.next().await {
                Ok(event) if event.kind == "BOOKMARK" => {}
                Ok(event) => events.push(event),
                Err(end) => panic!("{end:?} end after {events:?}, {n} expected"),
            }
        }
        events
    }

    pub async fn take_short(&mut self, n: usize) -> Vec<String> {
        self.take(n).await.iter().map(Event::short).collect()
    }

    pub async fn rest(&mut self) -> (Vec<Event>, End) {
        let mut events = Vec::new();
        loop {
            match self.next().await {
                Ok(event) => events.push(event),
                Err(end) => return (events, end),
            }
        }
    }

    async fn rest_bytes(&mut self, wait: Duration) -> Vec<u8> {
        let mut all = self.buffer.to_vec();
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(wait, self.body.frame()).await {
            if let Ok(data) = frame.into_data() {
                all.extend_from_slice(&data);
            }
        }
        all
    }
}
