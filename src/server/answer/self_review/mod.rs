//! SelfSubjectAccessReviews: "may I …?"
//!
//! ```text
//! question ─▶ remembered? ── yes ──▶ upstream's answer ─┐
//!                │ no                                   ├─▶ no, but a view? ─▶ yes
//!                └─▶ forwarded ─▶ upstream's answer ────┘
//! ```
//!
//! The answer is upstream's own, from memory or just received. It is changed in one
//! case: upstream says no to a list or watch of a whole resource, but the caller's
//! list or watch would be answered with a view.

mod passing;
mod question;
mod review;

use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::cdn_loop::CDN_LOOP;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, request};
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::negotiation::input_media_type;
use tokio::time::{Instant, timeout};

use self::passing::{Memory, Passing, Viewed};
use self::question::{OfWhole, Spec};
use super::cached::view_coverage;
use crate::authz::{Authorizer, Decision, SelfReview, self_review_key};
use crate::server::exchange::answer_head::AnswerHead;
use crate::server::exchange::{Exchange, Failure};
use crate::server::reply::answer::Answer;
use crate::server::stage::context::{CacheResult, RequestContext};
use crate::server::stage::observed::AnswerKeeper;
use crate::server::stage::{Identified, is_of_viewer, may_have_view, view_reason};
use crate::server::state::gate::Gate;

const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// The longest question that is read here. pingora keeps at most 64 KiB of a body
/// that was read before it is forwarded. Usual questions have 400 bytes.
const MAX_QUESTION: usize = 32 << 10;

/// How long a question may take to arrive. A slower one is forwarded, without a
/// seat.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// Answers a question from memory if possible. Otherwise upstream's answer is read
/// while it is passed on.
pub(in crate::server) async fn answer(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    identified: &Arc<Identified>,
) -> Result<Option<Answer>, Failure> {
    let Gate::Delegated(gate) = &identified.generation().gate else {
        return Ok(None);
    };
    let Some(user) = identified.user() else {
        return Ok(None);
    };
    let Some(length) = question_length(exchange.request(), identified) else {
        return Ok(None);
    };
    let asked = Instant::now();
    ctx.replays = true;
    let Some(body) = read(exchange, length).await? else {
        return Ok(None);
    };
    let headers = &exchange.request().headers;
    let authorizer = &gate.authorizer;
    // An answer that another apifront has remembered is older than it seems.
    let remembers = !headers.contains_key(CDN_LOOP);
    let key = self_review_key(user, identified.identity(), headers, &body);
    let believed = || remembers.then(|| authorizer.self_review(&key)).flatten();
    let viewed = viewed(identified, headers, &body, believed().as_deref()).await;
    // The view may have taken longer than the answer may be believed.
    if let Some(known) = believed() {
        if let Some(trail) = &mut ctx.audit {
            trail.request_piece(&body);
        }
        let mut answer = remembered(&known, viewed.as_ref(), authorizer);
        answer.warn(&configured_warnings(identified));
        return Ok(Some(answer));
    }
    ctx.keeper = Some(Box::new(Passing {
        authorizer: authorizer.clone(),
        memory: remembers.then(|| Memory {
            key,
            user: user.name.clone(),
            asked,
        }),
        viewed,
        head: None,
    }));
    Ok(None)
}

/// Returns the length of the question. Returns `None` if the request has a
/// parameter, or anything else that upstream might take into account.
fn question_length(request: &request::Parts, identified: &Identified) -> Option<usize> {
    let info = identified.info();
    let is_question = request.method == Method::POST
        && request.uri.path() == PATH
        && request.uri.query().is_none()
        && info.path == PATH
        && matches!(request.version, Version::HTTP_11 | Version::HTTP_2)
        && identified.route().is_none()
        && identified.degraded().is_none()
        && identified.upgrade().is_none()
        && !request.headers.contains_key(EXPECT)
        && !request.headers.contains_key(CONTENT_ENCODING)
        && !request.headers.contains_key(TRANSFER_ENCODING);
    let length = request.headers.get(CONTENT_LENGTH)?.to_str().ok()?;
    let length: usize = length.parse().ok()?;
    (is_question && (1..=MAX_QUESTION).contains(&length)).then_some(length)
}

/// Reads a body of this length. pingora keeps it in case the request is forwarded.
/// Returns `None` if it does not come in time.
async fn read(exchange: &mut Exchange<'_>, length: usize) -> Result<Option<Bytes>, Failure> {
    exchange.keep_body();
    let mut body = BytesMut::with_capacity(length);
    let whole = async {
        while let Some(piece) = exchange.read_body().await? {
            body.extend_from_slice(&piece);
            if body.len() > length {
                break;
            }
        }
        Ok(())
    };
    match timeout(READ_WITHIN, whole).await {
        Err(_) => Ok(None),
        Ok(Err(failure)) => Err(failure),
        Ok(Ok(())) => Ok(Some(body.freeze()).filter(|body| body.len() == length)),
    }
}

/// Returns the answer to give if upstream says no. Returns `None` if the caller's
/// list or watch would not have a view either, or if the question is about something
/// else.
async fn viewed(
    identified: &Identified,
    headers: &HeaderMap,
    body: &[u8],
    known: Option<&SelfReview>,
) -> Option<Viewed> {
    let is_allowed = known.is_some_and(|known| known.decision == Decision::Allow);
    if is_allowed || !is_of_viewer(identified, headers) {
        return None;
    }
    let content_type = match headers.get(CONTENT_TYPE) {
        Some(content_type) => Some(content_type.to_str().ok()?),
        None => None,
    };
    let spec = Spec::of_request(input_media_type(content_type)?, body)?;
    let whole = spec.of_whole()?;
    let gvr = located(identified, &whole).await?;
    let coverage = view_coverage(identified, whole.verb, &gvr).await?;
    Some(Viewed {
        spec,
        reason: view_reason(coverage),
    })
}

/// Returns the resource of the question. If the question names no version, it is
/// that in the first version of its group that has the resource.
async fn located(
    identified: &Identified,
    OfWhole {
        verb,
        group,
        version,
        resource,
    }: &OfWhole<'_>,
) -> Option<GroupVersionResource> {
    let in_version = |version| GroupVersionResource::new(group, version, resource);
    if let Some(version) = version {
        return Some(in_version(version));
    }
    // RBAC knows no versions.
    if !may_have_view(identified, verb, &in_version("")).await {
        return None;
    }
    let discovery = &identified.generation().discovery;
    discovery.preferred(group, resource).await
}

fn remembered(known: &SelfReview, viewed: Option<&Viewed>, authorizer: &Authorizer) -> Answer {
    let media_type = review::media_type(known.content_type.as_bytes());
    let changed = viewed
        .zip(media_type)
        .and_then(|(viewed, media_type)| viewed.answer(media_type, &known.body));
    authorizer.count_self_review(if changed.is_some() { "view" } else { "memory" });
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, known.content_type.clone());
    let body = vec![changed.unwrap_or_else(|| known.body.clone())];
    Answer::of_parts(StatusCode::CREATED, headers, body).out_of(CacheResult::Remembered)
}

/// Returns the warnings that the configuration has for all requests like this. An
/// answer with a warning of upstream's own is not remembered.
fn configured_warnings(identified: &Identified) -> Vec<HeaderValue> {
    let generation = identified.generation();
    let configured = &generation.settings.deprecations;
    let gvr = &identified.info().gvr;
    generation.deprecations.of_cached(gvr, &[], configured)
}

/// Sees the head of upstream's answer. The length is removed if the body may change.
pub(in crate::server) fn answer_begins(
    request: &request::Parts,
    answer: &mut impl AnswerHead,
    keeper: &mut dyn AnswerKeeper,
) {
    let head = answer.read();
    if head.status.is_informational() || !keeper.answered(head.status, &head.headers) {
        return;
    }
    let headers = &mut answer.change().headers;
    headers.remove(CONTENT_LENGTH);
    if request.version == Version::HTTP_11 {
        let chunked = HeaderValue::from_static("chunked");
        headers.insert(TRANSFER_ENCODING, chunked);
    }
}
