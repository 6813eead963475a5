//! The head of an answer. One function finishes every head, whoever made it and
//! whatever follows it.

use apifront_watch_cache::read::HitCost;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use http::request;

use super::{aggregator_headers, cors, deprecation};
use crate::server::exchange::answer_head::AnswerHead;
use crate::server::listener::loopback_guard;
use crate::server::stage::context::{CacheResult, Hit, RequestContext};
use crate::server::stage::{AUDIT_ID, flow_control};

/// The most headers that are added to an answer's own. These are the headers of
/// every answer, twice for a backend's answer, the Date, its shape, and the part that
/// the cache had.
pub(super) const MAX_ADDED_HEADERS: usize = 13;

pub(in crate::server) const NOT_CACHED: &str = "no-cache, private";

/// The header that tells the part that the cache had in an answer.
const CACHE_PART: HeaderName = HeaderName::from_static("x-apifront-cache");

/// The kind of an answer decides what its head needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Kind {
    /// It was made here, and is sent with its whole body.
    Whole,
    /// A watch of the cache.
    Watch,
    /// A watch of the cache as a WebSocket. Go's library writes this head without
    /// the headers that every other answer has.
    WebSocketWatch,
    /// Upstream made it, and it is passed on.
    Forwarded,
    /// Upstream has switched protocols. kube-apiserver passes this head on as it is.
    Tunnel,
}

/// Adds what the head of such an answer must have, and tells those who note answers.
pub(in crate::server) async fn finish(
    kind: Kind,
    head: &mut impl AnswerHead,
    request: &request::Parts,
    ctx: &mut RequestContext,
) {
    ctx.reply.code = head.read().status.as_u16();
    match kind {
        Kind::Whole | Kind::Watch => deprecation::note_made(ctx, head.read()),
        Kind::WebSocketWatch => {}
        Kind::Forwarded => finish_forwarded(head, ctx).await,
        Kind::Tunnel => deprecation::warn_forwarded(ctx, head).await,
    }
    if let Some(trail) = &mut ctx.audit {
        trail.response(ctx.reply.code, &head.read().headers);
    }
    let (is_common, is_for_browsers, tells_part) = match kind {
        Kind::Whole | Kind::Watch => (true, true, true),
        Kind::Forwarded => (false, true, true),
        Kind::WebSocketWatch => (false, false, true),
        Kind::Tunnel => (false, false, false),
    };
    if is_common {
        add_common(&mut head.change().headers, ctx);
    }
    if is_for_browsers && let Some(browsers) = ctx.for_browsers.as_deref() {
        cors::add(browsers, &mut head.change().headers);
    }
    // An apifront behind this one may have told its own part.
    if tells_part && let Some(part) = cache_part(request, ctx.reply.cache) {
        head.change().headers.insert(CACHE_PART, part);
    }
}

async fn finish_forwarded(head: &mut impl AnswerHead, ctx: &mut RequestContext) {
    if ctx.is_routed() {
        let class = ctx.classification.as_ref();
        let headers = &mut head.change().headers;
        aggregator_headers::rewrite(headers, &ctx.audit_id(), class);
    }
    if ctx.generation().gate.is_owner() && loopback_guard::may_be_page(&head.read().headers) {
        loopback_guard::sandbox(&mut head.change().headers);
    }
    deprecation::warn_forwarded(ctx, head).await;
}

/// Adds the headers that kube-apiserver has on every answer.
fn add_common(headers: &mut HeaderMap, ctx: &RequestContext) {
    let class = ctx.classification.as_ref();
    let not_cached = HeaderValue::from_static(NOT_CACHED);
    let audit_id = ctx.audit_id();
    headers.insert(AUDIT_ID, audit_id.clone());
    flow_control::add(headers, class);
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, not_cached.clone());
    }
    if ctx.is_routed() && matches!(ctx.reply.cache, CacheResult::Hit(_)) {
        // An aggregator would also add its own headers: see aggregator_headers.rs.
        headers.append(AUDIT_ID, audit_id);
        headers.append(CACHE_CONTROL, not_cached);
        if ctx.is_of_classifying_backend() {
            flow_control::add(headers, class);
        }
    }
}

/// Tells a client that asks with `X-Apifront-Debug: cache` which part the cache had
/// in the answer.
fn cache_part(request: &request::Parts, cache: CacheResult) -> Option<HeaderValue> {
    let asked = request
        .headers
        .get("x-apifront-debug")
        .is_some_and(|v| v == "cache");
    let text = match cache {
        _ if !asked => return None,
        CacheResult::NotAsked => return None,
        CacheResult::Hit(Hit { version, cost }) => match cost {
            HitCost::Nothing => format!("hit; rv={version}"),
            cost => format!("hit; rv={version}; asked={}", cost.as_str()),
        },
        CacheResult::Document => "hit; document".to_owned(),
        CacheResult::Remembered => "hit; remembered".to_owned(),
        CacheResult::Bypass(reason) => format!("bypass; reason={}", reason.as_str()),
    };
    HeaderValue::from_str(&text).ok()
}
