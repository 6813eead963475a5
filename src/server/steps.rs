//! The steps that decide how a request is answered, from top to bottom. This file is
//! the table of contents; the steps are in the files that it names.

use std::sync::Arc;

use apifront_upstream::cdn_loop;
use apifront_watch_cache::watch::Watch;
use http::request;
use kubernetes_wire::api::Query;
use pingora_core::Error;
use pingora_proxy::Session;

use crate::server::answer::cached::{self, Outcome};
use crate::server::answer::{discovery, openapi, own, self_review, shadow};
use crate::server::forward::{self, aggregate, stream, upgrade};
use crate::server::listener::framing;
use crate::server::listener::large_heads::LargeHeads;
use crate::server::reply::answer::Answer;
use crate::server::reply::watch_stream::WatchHead;
use crate::server::reply::{browsers, refusal};
use crate::server::stage::context::{CacheResult, RequestContext};
use crate::server::stage::observed::AnswerObserver;
use crate::server::stage::{Identified, PendingGrant, audit, flow_control, forward_slots, seats};

/// How a request is answered.
pub(super) enum Reply {
    /// With an answer that was made here.
    Whole(Answer),
    /// With a watch of the cache.
    Watch(Box<Watch>, WatchHead),
    /// By upstream. pingora passes the request and the answer on.
    Forwarded,
    /// By upstream. Its answer has been passed on, or a task does so.
    Passed,
}

/// A step's result, or why the request takes no further step.
type Step<T> = Result<T, Stop>;

enum Stop {
    Answer(Answer),
    /// The client is gone, or nobody can answer it.
    Failure(Box<Error>),
}

impl From<Answer> for Stop {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl From<Box<Error>> for Stop {
    fn from(error: Box<Error>) -> Self {
        Self::Failure(error)
    }
}

pub(super) async fn reply(
    session: &mut Session,
    ctx: &mut RequestContext,
    large_heads: &LargeHeads,
) -> pingora_core::Result<Reply> {
    match take_steps(session, ctx, large_heads).await {
        Ok(reply) => Ok(reply),
        Err(Stop::Answer(answer)) => Ok(Reply::Whole(answer)),
        Err(Stop::Failure(error)) => Err(error),
    }
}

async fn take_steps(
    session: &mut Session,
    ctx: &mut RequestContext,
    large_heads: &LargeHeads,
) -> Step<Reply> {
    let identified = admit(session, ctx, large_heads).await?;
    let request = session.req_header();
    let mut grant = ctx.pending_grant(identified.clone());
    if let Some(answer) = answer_before_cache(request, &mut grant).await {
        return Ok(Reply::Whole(answer));
    }
    let cache = match cached::answer(request, &mut grant).await {
        Outcome::Answer(answer) => return Ok(Reply::Whole(answer)),
        Outcome::Watch(watch, head) => return Ok(Reply::Watch(watch, head)),
        Outcome::Bypass(reason) => CacheResult::Bypass(reason),
        Outcome::NotAsked => CacheResult::NotAsked,
    };
    let authority = aggregate::authority(request, &mut grant).await;
    let (authority, backend) = authority.map_err(|answer| answer.out_of(cache))?;
    ctx.reply.cache = cache;
    if let Some(answer) = self_review::answer(session, ctx, &identified).await? {
        return Ok(Reply::Whole(answer));
    }
    let sampled = shadow::begin(session.req_header(), &identified, cache);
    forward_slots::take(session.req_header(), ctx, &authority)
        .map_err(|refused| Answer::too_many_requests(refused.retry_after).out_of(cache))?;
    forward::begin(session.req_header(), ctx, authority, backend);
    let failed = if upgrade::is_relayed(session.req_header(), &identified) {
        upgrade::tunnel(session, ctx).await?
    } else if stream::is_stream(session.req_header(), identified.info()) {
        stream::forward(session, ctx, sampled).await?
    } else {
        ctx.observer = sampled.map(|sampled| sampled as Box<dyn AnswerObserver>);
        forward::go_on(session, ctx).await?;
        return Ok(Reply::Forwarded);
    };
    Ok(match failed {
        Some(answer) => Reply::Whole(answer.out_of(cache)),
        None => Reply::Passed,
    })
}

/// Reads the request, identifies the caller, and waits for a seat.
async fn admit(
    session: &mut Session,
    ctx: &mut RequestContext,
    large_heads: &LargeHeads,
) -> Step<Arc<Identified>> {
    ctx.for_browsers = browsers::headers(session, ctx.generation());
    // A request that two parsers could read differently goes no further.
    match framing::check(
        session,
        ctx.generation().settings.max_request_header_bytes,
        large_heads,
    ) {
        Ok(None) => {}
        Ok(large) => ctx.large_head = large,
        Err(refusal) => {
            let headers = &session.req_header().headers;
            let answer = Answer::from_status(&refusal.status(), headers, &Query::default());
            return Err(answer.into());
        }
    }
    let received = match ctx.receive(session) {
        Ok(received) => received,
        Err(status) => {
            let nothing = Query::default();
            let query = ctx.query().unwrap_or(&nothing);
            let answer = Answer::from_status(&status, &session.req_header().headers, query);
            return Err(answer.into());
        }
    };
    // apifront would forward the request to itself.
    if cdn_loop::has_passed(&session.req_header().headers) {
        ctx.audit = audit::unasked(session.req_header(), &received);
        let request = session.req_header();
        let answer = refusal::of_loop(request, received.query());
        return Err(answer.into());
    }
    let method = &session.req_header().method;
    if let Some(answer) = browsers::preflight(method, ctx.for_browsers.as_deref()) {
        return Err(answer.into());
    }
    // Health must answer even when no API server can tell who is asking.
    if let Some(answer) = own::health(ctx.generation(), session.req_header()) {
        ctx.audit = audit::unasked(session.req_header(), &received);
        ctx.classification = flow_control::of_health(session, received).await;
        return Err(answer.into());
    }
    let identified = match ctx.identify(received.clone(), session).await? {
        Ok(identified) => identified,
        Err(refused) => {
            let request = session.req_header();
            let answer = refusal::of_caller(&refused, request, received.query());
            return Err(answer.into());
        }
    };
    if let Err(refused) = seats::take(session, ctx, &identified).await? {
        let answer = Answer::too_many_requests(refused.retry_after);
        return Err(answer.into());
    }
    Ok(identified)
}

/// Answers requests that the cache has no part in: for apifront's own paths,
/// for discovery and OpenAPI, and for hidden or unavailable APIs.
async fn answer_before_cache(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Option<Answer> {
    if let Some(answer) = own::own_paths(request, grant).await {
        return Some(answer);
    }
    if let Some(answer) = discovery::answer(request, grant).await {
        return Some(answer);
    }
    if let Some(answer) = discovery::refuse_hidden(request, grant).await {
        return Some(answer);
    }
    if let Some(answer) = openapi::answer(request, grant).await {
        return Some(answer);
    }
    aggregate::before_cache(request, grant).await
}
