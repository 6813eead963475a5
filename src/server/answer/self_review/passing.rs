//! Upstream's answer on its way to the caller. It is remembered. If it says no and
//! the caller has a view, it is changed to a yes.

use std::sync::Arc;

use apifront_upstream::review::Key;
use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use kubernetes_wire::negotiation::MediaType;
use tokio::time::Instant;

use super::question::Spec;
use super::review;
use crate::authz::{Authorizer, Decision, SelfReview};
use crate::server::reply::head::NOT_CACHED;
use crate::server::stage::observed::AnswerKeeper;

/// The most bytes of an answer that are read here.
const MAX_ANSWER: usize = 64 << 10;

/// The headers that an answer may have if it is to be remembered. Apart from the
/// content type, they are those of every answer.
const HEADERS: [&str; 9] = [
    "audit-id",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "date",
    "transfer-encoding",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];

/// A question for which there is a view, and the reason to put into the answer.
pub(super) struct Viewed {
    pub(super) spec: Spec,
    pub(super) reason: String,
}

impl Viewed {
    /// Returns the answer that says yes, if upstream's says no to this question.
    pub(super) fn answer(&self, media_type: MediaType, body: &Bytes) -> Option<Bytes> {
        let review = review::read(media_type, body)?;
        if review.decision == Decision::Allow || review.spec.as_ref() != Some(&self.spec) {
            return None;
        }
        review::allowed(media_type, body, &self.reason)
    }
}

/// The place in memory for an answer.
pub(super) struct Memory {
    pub(super) key: Key,
    pub(super) user: String,
    pub(super) asked: Instant,
}

pub(super) struct Passing {
    pub(super) authorizer: Arc<Authorizer>,
    /// `None` if the answer must not be remembered.
    pub(super) memory: Option<Memory>,
    pub(super) viewed: Option<Viewed>,
    pub(super) head: Option<Head>,
}

/// The head of an answer that can be read here.
pub(super) struct Head {
    media_type: MediaType,
    content_type: HeaderValue,
    /// `None` if upstream does not tell the length. It does tell it for usual
    /// answers.
    length: Option<usize>,
    /// Whether only the content type of the head must be remembered.
    is_plain: bool,
    body: BytesMut,
}

impl Head {
    fn read(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        let content_type = headers.get(CONTENT_TYPE)?;
        let length = match headers.get(CONTENT_LENGTH) {
            Some(length) => Some(length.to_str().ok()?.parse().ok()?),
            None => None,
        };
        let is_short = length.is_none_or(|length| (1..=MAX_ANSWER).contains(&length));
        let has_no_coding = !headers.contains_key(CONTENT_ENCODING);
        if status != StatusCode::CREATED || !has_no_coding || !is_short {
            return None;
        }
        Some(Self {
            media_type: review::media_type(content_type.as_bytes())?,
            content_type: content_type.clone(),
            length,
            is_plain: is_plain(headers),
            body: BytesMut::with_capacity(length.unwrap_or_default()),
        })
    }

    /// Tells whether the whole answer has come, or more than is read here.
    fn is_whole(&self) -> bool {
        match self.length {
            Some(length) => self.body.len() >= length,
            None => self.body.len() > MAX_ANSWER || review::is_whole(self.media_type, &self.body),
        }
    }
}

/// Tells whether an answer from memory would have the same head.
fn is_plain(headers: &HeaderMap) -> bool {
    let is_usual = headers.get(CACHE_CONTROL).is_some_and(|v| v == NOT_CACHED);
    is_usual && headers.keys().all(|name| HEADERS.contains(&name.as_str()))
}

impl AnswerKeeper for Passing {
    fn answered(&mut self, status: StatusCode, headers: &HeaderMap) -> bool {
        self.head = Head::read(status, headers);
        if self.head.is_none() {
            self.authorizer.count_self_review("upstream");
        }
        self.head.is_some() && self.viewed.is_some()
    }

    fn piece(&mut self, piece: &mut Option<Bytes>) {
        let Some(head) = &mut self.head else { return };
        head.body
            .extend_from_slice(piece.as_deref().unwrap_or_default());
        let holds_back = self.viewed.is_some();
        if !head.is_whole() {
            if holds_back {
                *piece = None;
            }
            return;
        }
        let Some(head) = self.head.take() else { return };
        let body = head.body.freeze();
        let viewed = self.viewed.take();
        let changed = viewed.and_then(|viewed| viewed.answer(head.media_type, &body));
        let by = if changed.is_some() {
            "view"
        } else {
            "upstream"
        };
        self.authorizer.count_self_review(by);
        if holds_back {
            *piece = Some(changed.unwrap_or_else(|| body.clone()));
        }
        let has_end = head.length == Some(body.len());
        if let Some(memory) = self.memory.take().filter(|_| head.is_plain && has_end)
            && let Some(review) = review::read(head.media_type, &body)
        {
            let review = SelfReview {
                decision: review.decision,
                content_type: head.content_type,
                body,
            };
            let Memory { key, user, asked } = memory;
            self.authorizer
                .remember_self_review(key, &user, review, asked);
        }
    }
}
