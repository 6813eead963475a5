//! The events of a watch, one on each line.

use bytes::BytesMut;
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;

use super::failure::Failure;

/// The most bytes of an event. The first one has a whole page and all counts.
const MAX_EVENT_BYTES: usize = 64 << 20;

#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) object: Value,
}

pub(super) struct Events {
    body: Body,
    received: BytesMut,
    /// The number of received bytes that have no end of a line.
    searched: usize,
}

impl Events {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            received: BytesMut::new(),
            searched: 0,
        }
    }

    /// Returns the next event, or `None` at the end. A line that does not end is no event.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(line) = self.line() {
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return serde_json::from_slice(&line)
                    .map(Some)
                    .map_err(Failure::unreadable);
            }
            if self.received.len() > MAX_EVENT_BYTES {
                return Err(Failure::unreadable("an event is too large"));
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| Failure::BrokenOff(error.to_string()))?;
            if let Some(data) = frame.data_ref() {
                self.received.extend_from_slice(data);
            }
        }
    }

    fn line(&mut self) -> Option<BytesMut> {
        let new = self.received.get(self.searched..)?;
        match memchr::memchr(b'\n', new) {
            Some(at) => {
                let end = self.searched.saturating_add(at).saturating_add(1);
                self.searched = 0;
                Some(self.received.split_to(end))
            }
            None => {
                self.searched = self.received.len();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn kinds(text: &str) -> Result<Vec<String>, Failure> {
        let mut events = Events::new(Body::from(text.as_bytes().to_vec()));
        let mut kinds = Vec::new();
        while let Some(event) = events.next().await? {
            kinds.push(event.kind);
        }
        Ok(kinds)
    }

    #[tokio::test]
    async fn each_line_is_an_event() {
        let text = "{\"type\":\"A\",\"object\":1}\n\n{\"type\":\"B\",\"object\":{}}\r\n{\"ty";
        assert_eq!(kinds(text).await.unwrap(), ["A", "B"]);
        assert!(kinds("").await.unwrap().is_empty());
        for wrong in ["{\"type\":\"A\"}\n", "nonsense\n", "{\"object\":1}\n"] {
            assert!(kinds(wrong).await.is_err(), "{wrong}");
        }
    }
}
