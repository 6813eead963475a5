//! Remembered answers to SelfSubjectAccessReviews.
//!
//! Upstream's whole answer is remembered by the caller, the headers and the body of
//! the question. So an answer from memory is one that upstream recently gave to the
//! same request, whatever its release and encoding. Answers are kept apart from
//! decisions about requests, so that a caller's questions never displace decisions.

use std::sync::Arc;

use apifront_upstream::review::{AnswerCache, Held, Key};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use kubernetes_wire::api::{Attributes, UserInfo};
use tokio::time::Instant;

use super::cache::{self, Parts};
use super::{Authorizer, AuthzSettings, Decision};

/// The memory for answers. Usual ones have less than 1 KiB, so there is room for pages
/// with fifty questions for three hundred callers.
const MAX_BYTES: usize = 16 << 20;

/// The most bytes of an answer that is kept.
const MAX_ANSWER_BYTES: usize = 4 << 10;

/// Headers on which upstream's answer does not depend: headers of one request or of
/// its way, and `Authorization`, because the key holds the identity. Questions that
/// differ in any other header have separate answers.
const INDIFFERENT: [&str; 18] = [
    "audit-id",
    "authorization",
    "baggage",
    "content-length",
    "host",
    "kubectl-command",
    "kubectl-session",
    "traceparent",
    "tracestate",
    "x-apifront-debug",
    "x-apifront-view",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-request-id",
];

#[derive(Debug)]
pub struct SelfReview {
    pub decision: Decision,
    pub content_type: HeaderValue,
    pub body: Bytes,
}

impl Held for SelfReview {
    fn held_bytes(&self) -> usize {
        size_of::<Self>()
            .saturating_add(self.content_type.len())
            .saturating_add(self.body.len())
    }
}

pub(super) struct SelfReviews(AnswerCache<Arc<str>, Arc<SelfReview>>);

impl SelfReviews {
    pub(super) fn new(now: Instant) -> Self {
        Self(AnswerCache::new(MAX_BYTES, now))
    }

    pub(super) fn clear(&self, now: Instant) {
        self.0.clear(now);
    }
}

impl AuthzSettings {
    /// Tells whether an answer that was asked for at `asked` may be used. An answer
    /// also implies that the caller may ask, so the limit for allowances applies
    /// too.
    fn believes_answer(&self, decision: Decision, asked: Instant, now: Instant) -> bool {
        self.believes(decision, asked, now) && self.believes(Decision::Allow, asked, now)
    }
}

impl Authorizer {
    /// Returns upstream's answer to the question with this key, if it is remembered
    /// and may still be used.
    pub fn self_review(&self, key: &Key) -> Option<Arc<SelfReview>> {
        let now = Instant::now();
        let (review, asked) = self.self_reviews.0.get(key, now)?;
        let settings = self.settings.load();
        let believed = settings.believes_answer(review.decision, asked, now);
        believed.then_some(review)
    }

    /// Counts a question by the source of its answer: memory, upstream or view.
    pub fn count_self_review(&self, answer: &'static str) {
        self.metrics.self_review(answer);
    }

    /// Remembers upstream's answer to a question that this user asked at `asked`.
    pub fn remember_self_review(&self, key: Key, user: &str, review: SelfReview, asked: Instant) {
        let settings = self.settings.load();
        let fits = review.body.len() <= MAX_ANSWER_BYTES;
        if fits && settings.believes_answer(review.decision, asked, Instant::now()) {
            let longest = settings.allow_ttl.max(settings.deny_ttl);
            let answers = &self.self_reviews.0;
            answers.insert(key, user.into(), Arc::new(review), asked, longest);
        }
    }
}

/// Returns the key of a question. It covers the caller, the headers that name the
/// caller to upstream, and every part of the request on which the answer may depend.
pub fn self_review_key(
    user: &UserInfo,
    identity: &HeaderMap,
    headers: &HeaderMap,
    body: &[u8],
) -> Key {
    let nothing = Attributes::NonResource {
        verb: String::new(),
        path: String::new(),
    };
    let mut parts = Parts::default();
    parts.bytes(&cache::key(user, &nothing));
    add(identity.iter().collect(), &mut parts);
    let counts = |(name, _): &(&HeaderName, _)| !INDIFFERENT.contains(&name.as_str());
    add(headers.iter().filter(counts).collect(), &mut parts);
    parts.bytes(body);
    parts.digest()
}

fn add(headers: Vec<(&HeaderName, &HeaderValue)>, parts: &mut Parts) {
    parts.number(headers.len());
    for (name, value) in headers {
        parts.bytes(name.as_str().as_bytes());
        parts.bytes(value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::authz::CachedRbacUse;

    fn headers(of: &[(&'static str, &'static str)]) -> HeaderMap {
        let one = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        of.iter().map(one).collect()
    }

    fn user(name: &str, groups: &[&str], extra: &[(&str, &str)]) -> UserInfo {
        UserInfo {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            extra: extra
                .iter()
                .map(|(key, value)| ((*key).to_owned(), vec![(*value).to_owned()]))
                .collect(),
            ..UserInfo::default()
        }
    }

    #[test]
    fn no_two_questions_share_an_answer() {
        let (jane, none) = (user("jane", &["devs"], &[]), HeaderMap::new());
        let json = headers(&[("accept", "application/json")]);
        let token = |token| headers(&[("authorization", token)]);
        let keys: HashSet<Key> = [
            self_review_key(&jane, &none, &json, b"a"),
            self_review_key(&jane, &none, &json, b"b"),
            self_review_key(&jane, &none, &none, b"a"),
            self_review_key(&jane, &json, &none, b"a"),
            self_review_key(&jane, &token("x"), &json, b"a"),
            self_review_key(&jane, &token("y"), &json, b"a"),
            self_review_key(&user("jane", &[], &[]), &none, &json, b"a"),
            self_review_key(&user("jane", &["devs"], &[("k", "v")]), &none, &json, b"a"),
            self_review_key(&user("jane", &["devs"], &[("k", "w")]), &none, &json, b"a"),
            self_review_key(&jane, &none, &headers(&[("x-new", "1")]), b"a"),
            self_review_key(&jane, &none, &headers(&[("user-agent", "k9s")]), b"a"),
        ]
        .into();
        assert_eq!(keys.len(), 11);
    }

    #[test]
    fn what_names_one_request_does_not_count() {
        let (jane, none) = (user("jane", &[], &[]), HeaderMap::new());
        let plain = headers(&[("user-agent", "kubectl")]);
        let named = headers(&[
            ("audit-id", "7"),
            ("kubectl-session", "8"),
            ("user-agent", "kubectl"),
            ("authorization", "Bearer z"),
        ]);
        assert_eq!(
            self_review_key(&jane, &none, &plain, b"a"),
            self_review_key(&jane, &none, &named, b"a")
        );
    }

    #[test]
    fn an_answer_is_believed_as_long_as_both_it_and_the_right_to_ask() {
        let asked = Instant::now();
        let at = |seconds| asked + Duration::from_secs(seconds);
        let settings = |allow, deny| AuthzSettings {
            allow_ttl: Duration::from_secs(allow),
            deny_ttl: Duration::from_secs(deny),
            outage: Duration::from_secs(60),
            degraded: Duration::from_secs(60),
            cached_rbac: CachedRbacUse::Disabled,
        };
        for (allow, deny, decision, last) in [
            (10, 5, Decision::Allow, 9),
            (10, 5, Decision::Deny, 4),
            (10, 5, Decision::NoOpinion, 4),
            (3, 30, Decision::NoOpinion, 2),
        ] {
            let settings = settings(allow, deny);
            assert!(settings.believes_answer(decision, asked, at(last)));
            assert!(!settings.believes_answer(decision, asked, at(last + 1)));
        }
        assert!(!settings(0, 5).believes_answer(Decision::Deny, asked, asked));
    }
}
