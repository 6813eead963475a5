//! Keeps upstream's answer while it is passed on.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};

use super::follow::Tee;
use super::{Sampled, compare};
use crate::server::stage::observed::AnswerObserver;
use crate::shadow::{HeldBytes, Verdict};

pub(in crate::server) struct Capture {
    pub(super) sampled: Sampled,
    head: Option<Head>,
    body: BytesMut,
    held: HeldBytes,
}

pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The time until upstream's answer began.
    pub(super) took: Duration,
}

pub(super) struct Whole {
    pub(super) head: Head,
    pub(super) body: Bytes,
    pub(super) held: HeldBytes,
}

impl AnswerObserver for Capture {
    fn answered(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.note_head(status, headers);
    }

    fn piece(mut self: Box<Self>, bytes: &[u8], is_end: bool) -> Option<Box<dyn AnswerObserver>> {
        if !self.hold(bytes) {
            return None;
        }
        if is_end {
            self.finish();
            return None;
        }
        Some(self)
    }
}

impl Head {
    pub(super) fn content_type(&self) -> &str {
        let content_type = self.headers.get(CONTENT_TYPE);
        let text = content_type.and_then(|value| value.to_str().ok());
        text.unwrap_or_default()
    }

    pub(super) fn is_gzip(&self) -> bool {
        let encoding = self.headers.get(CONTENT_ENCODING);
        encoding.is_some_and(|encoding| encoding == "gzip")
    }
}

impl Capture {
    pub(super) fn new(sampled: Sampled) -> Self {
        let held = sampled.begin();
        Self {
            sampled,
            head: None,
            body: BytesMut::new(),
            held,
        }
    }

    fn note_head(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.head = Some(Head {
            status,
            headers: headers.clone(),
            took: self.sampled.asked.elapsed(),
        });
    }

    /// Keeps more of the body. Returns false if there is no room for it.
    fn hold(&mut self, bytes: &[u8]) -> bool {
        if self.held.grow(bytes.len()).is_err() {
            let (sampled, shadow) = (&self.sampled, self.sampled.shadow());
            let subject = sampled.subject(sampled.representation);
            shadow.judged(&subject, Verdict::NotComparable("no_room"));
            return false;
        }
        self.body.extend_from_slice(bytes);
        true
    }

    /// Compares the answer, which is complete.
    fn finish(self) {
        let Self {
            sampled,
            head,
            body,
            held,
        } = self;
        if let Some(head) = head {
            let whole = Whole {
                head,
                body: body.freeze(),
                held,
            };
            tokio::spawn(compare::compare(sampled, whole));
        }
    }

    /// Follows the events of a watch. Returns `None` if the answer is not a watch.
    pub(in crate::server) fn follow(
        mut self: Box<Self>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<Tee> {
        self.note_head(status, headers);
        let head = self.head.filter(|head| head.status == StatusCode::OK)?;
        Tee::start(self.sampled, head, self.held)
    }
}
