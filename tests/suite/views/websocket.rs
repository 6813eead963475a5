//! A view's watch over WebSocket has the same events as a stream.

use serde_json::{Value, json};

use super::world::{MAPS, SOON, World, all, key, list_and_watch, version};
use crate::harness::client::Client;
use crate::harness::raw::RawConnection;
use crate::websocket_watch;

/// The first bytes of an unmasked text message of one frame, and of a closing frame.
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;

struct Socket(RawConnection);

/// Opens a watch. Returns the first line of the answer, and the connection after it.
async fn open(client: &Client, path: &str) -> (String, Socket) {
    let mut connection =
        websocket_watch::open(client, &websocket_watch::handshake(path, &[])).await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(within(connection.read_exact(1)).await);
    }
    let head = String::from_utf8(head).expect("text");
    let status = head.lines().next().unwrap_or_default().to_owned();
    (status, Socket(connection))
}

async fn within(read: impl Future<Output = std::io::Result<Vec<u8>>>) -> Vec<u8> {
    let read = tokio::time::timeout(SOON, read).await;
    read.expect("bytes in time").expect("bytes")
}

impl Socket {
    /// Returns the next event, or `None` if the server closes.
    async fn next(&mut self) -> Option<Value> {
        let frame = within(self.0.read_exact(2)).await;
        let length = match frame[1] {
            126 => number(&within(self.0.read_exact(2)).await),
            127 => number(&within(self.0.read_exact(8)).await),
            short => usize::from(short),
        };
        let payload = within(self.0.read_exact(length)).await;
        match frame[0] {
            CLOSE => None,
            TEXT => Some(serde_json::from_slice(&payload).expect("an event")),
            other => panic!("frame {other:#x}"),
        }
    }

    /// Returns the next events, without bookmarks, as `TYPE namespace/name`.
    async fn told(&mut self, n: usize) -> Vec<String> {
        let mut told = Vec::new();
        while told.len() < n {
            let event = self.next().await.expect("an event");
            if event["type"] != "BOOKMARK" {
                told.push(shown(&event));
            }
        }
        told
    }
}

fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |sum, byte| (sum << 8) | usize::from(*byte))
}

fn shown(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap_or_default();
    format!("{kind} {}", key(&event["object"]))
}

#[tokio::test]
async fn a_websocket_hears_what_a_stream_hears() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(3, |_| {}).await;
    let [first, second, hidden] = &world.namespaces[..] else {
        panic!("three namespaces");
    };
    world.grant(first).await;
    let client = world.client();
    world.watchable(&client, &[first]).await;
    let initial = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    );
    let (status, mut socket) = open(&client, &initial).await;
    assert!(status.contains(" 101 "), "{status}");
    assert_eq!(socket.told(3).await, all("ADDED", first));
    let mark = socket.next().await.expect("a bookmark");
    assert_eq!(mark["type"], "BOOKMARK");
    let ended = &mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
    assert_eq!(*ended, json!("true"));
    world.grant(second).await;
    assert_eq!(socket.told(3).await, all("ADDED", second));
    world.put_map(hidden, "a", "secret").await;
    world.put_map(second, "b", "second").await;
    assert_eq!(socket.told(1).await, [format!("MODIFIED {second}/b")]);
    world.revoke(second).await;
    assert_eq!(socket.told(3).await, all("DELETED", second));
    world.put_map(second, "b", "unheard").await;
    world.put_map(first, "b", "second").await;
    assert_eq!(socket.told(1).await, [format!("MODIFIED {first}/b")]);
}

#[tokio::test]
async fn a_websocket_goes_on_from_a_list_and_ends_in_time() {
    skip_under_oracle!("kube-apiserver has no views");
    let world = World::start(2, |_| {}).await;
    let [first, hidden] = &world.namespaces[..] else {
        panic!("two namespaces");
    };
    world.grant(first).await;
    let client = world.client();
    world.watchable(&client, &[first]).await;
    // A stream can begin at this version, and so can a WebSocket.
    let (list, mut stream) = list_and_watch(&world, &client).await;
    let path = format!(
        "{MAPS}?watch=1&timeoutSeconds=5&resourceVersion={}",
        version(&list)
    );
    let (status, mut socket) = open(&client, &path).await;
    assert!(status.contains(" 101 "), "{status}");
    world.put_map(hidden, "a", "secret").await;
    world.put_map(first, "a", "second").await;
    let changed = loop {
        let event = stream.take(1).await.remove(0);
        if event.object["data"]["value"] == "second" {
            break event.object;
        }
    };
    loop {
        let event = socket.next().await.expect("an event");
        assert_eq!(shown(&event), format!("MODIFIED {first}/a"));
        if event["object"] == changed {
            break;
        }
    }
    assert_eq!(socket.next().await, None);
}

/// Neither kube-apiserver nor an apifront without views accepts it.
#[tokio::test]
async fn a_websocket_without_a_view_is_refused() {
    let world = World::start(1, |config| config["views"] = json!({})).await;
    world.grant(&world.namespaces[0]).await;
    let path = format!("{MAPS}?watch=1");
    for client in [world.client(), world.direct()] {
        let (status, _) = open(&client, &path).await;
        assert!(status.contains(" 403 "), "{status}");
    }
}
