//! Reads lists to their end without keeping them.

use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;

use harness::client::Client;

/// The length of a prefix that contains a list's metadata, which precedes the items.
const HEAD: usize = 200;

pub struct List {
    pub headers: HeaderMap,
    pub bytes: usize,
    head: Vec<u8>,
}

/// Reads a list without a deadline, since the last of many concurrent lists takes
/// long.
pub async fn read(client: &Client, path: &str, headers: &[(&str, &str)]) -> List {
    let response = client.try_open(Method::GET, path, headers, Bytes::new());
    let response = response.await.expect("an answer");
    assert_eq!(response.status(), 200, "{path}");
    let (parts, mut body) = response.into_parts();
    let (mut bytes, mut head) = (0, Vec::new());
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.expect("the whole list").into_data() {
            let missing = HEAD.saturating_sub(head.len());
            head.extend_from_slice(&data[..data.len().min(missing)]);
            bytes += data.len();
        }
    }
    List {
        headers: parts.headers,
        bytes,
        head,
    }
}

impl List {
    pub fn cached(&self) -> bool {
        let answered = self.headers.get("x-apifront-cache");
        answered.is_some_and(|v| v.as_bytes().starts_with(b"hit"))
    }

    pub fn version(&self) -> u64 {
        let head = String::from_utf8_lossy(&self.head);
        let version = head
            .split_once(r#""resourceVersion":""#)
            .and_then(|(_, rest)| rest.split_once('"')?.0.parse().ok());
        version.expect("a version")
    }
}
