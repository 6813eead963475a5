//! Opens many watches at once, and reads their events.

use std::time::Instant;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use harness::client::Client;

/// The number of streams on one connection, fewer than either server allows.
pub const STREAMS: usize = 50;

/// The watch that fills an informer's store since client-go 1.35.
const WATCH_LIST: &str = "/api/v1/pods?allowWatchBookmarks=true\
                          &resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true";

/// The annotation that ends the initial events of a WatchList (KEP-3157).
const INITIAL_EVENTS_END: &[u8] = br#""k8s.io/initial-events-end":"true""#;

/// A length that no bookmark exceeds.
const TAIL: usize = 1 << 10;

/// Opens watches one after another, [`STREAMS`] on each connection.
pub async fn open(client: &Client, paths: impl Iterator<Item = String>) -> Vec<Incoming> {
    let mut open = Vec::new();
    let mut connection = client.separate();
    for (n, path) in paths.enumerate() {
        if n % STREAMS == 0 {
            connection = client.separate();
        }
        open.push(one(&connection, &path).await);
    }
    open
}

pub async fn one(client: &Client, path: &str) -> Incoming {
    let response = client.open(path, &[]).await;
    assert_eq!(response.status(), 200, "{path}");
    response.into_body()
}

/// Waits for one event, which must be one line with nothing after it, and
/// returns its length.
pub async fn next_event(watch: &mut Incoming) -> usize {
    let mut bytes = 0;
    loop {
        let data = next_data(watch).await;
        bytes += data.len();
        if data.ends_with(b"\n") {
            return bytes;
        }
    }
}

/// Waits for data, which may end within an event. Returns the number of bytes, and of
/// ends of events: each is a line of JSON.
pub async fn some_events(watch: &mut Incoming) -> (usize, usize) {
    let data = next_data(watch).await;
    let ends = data.iter().filter(|byte| **byte == b'\n').count();
    (data.len(), ends)
}

pub struct Informer {
    /// The watch, which stays open.
    _watch: Incoming,
    pub bytes: usize,
    pub objects: usize,
    pub filled_at: Instant,
}

/// Fills an informer without a deadline, since the last of many concurrent informers
/// takes long.
pub async fn inform(client: &Client) -> Informer {
    let headers = [("accept", "application/json")];
    let response = client.try_open(Method::GET, WATCH_LIST, &headers, Bytes::new());
    let response = response.await.expect("an answer");
    assert_eq!(response.status(), 200);
    let mut watch = response.into_body();
    let (bytes, lines) = initial_events(&mut watch).await;
    Informer {
        _watch: watch,
        bytes,
        // The bookmark is not an object.
        objects: lines - 1,
        filled_at: Instant::now(),
    }
}

/// Reads all initial events and their final bookmark. Returns the number of bytes
/// and lines.
async fn initial_events(watch: &mut Incoming) -> (usize, usize) {
    let (mut bytes, mut lines) = (0, 0);
    let mut tail = Vec::new();
    loop {
        let data = next_data(watch).await;
        bytes += data.len();
        lines += data.iter().filter(|b| **b == b'\n').count();
        tail.extend_from_slice(&data[data.len().saturating_sub(TAIL)..]);
        tail.drain(..tail.len().saturating_sub(TAIL));
        let is_end = || {
            tail.windows(INITIAL_EVENTS_END.len())
                .any(|w| w == INITIAL_EVENTS_END)
        };
        if tail.ends_with(b"\n") && is_end() {
            return (bytes, lines);
        }
    }
}

async fn next_data(watch: &mut Incoming) -> Bytes {
    loop {
        let frame = watch.frame().await.expect("an open watch");
        if let Ok(data) = frame.expect("an open watch").into_data() {
            return data;
        }
    }
}
