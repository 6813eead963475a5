//! The steps that decide how a request is answered, from top to bottom. This file is
//! the table of contents; the steps are in the files that it names.

use std::pin::pin;
use std::sync::Arc;

use apifront_upstream::cdn_loop;
use apifront_watch_cache::watch::Watch;
use http::request;
use kubernetes_wire::api::Query;

use crate::aggregation::InFlight;
use crate::server::answer::cached::{self, Outcome};
use crate::server::answer::{discovery, openapi, own, query, self_review, shadow};
use crate::server::exchange::{Exchange, Failure, Shown};
use crate::server::forward::{self, aggregate, stream, upgrade};
use crate::server::listener::large_heads::LargeHeads;
use crate::server::reply::answer::Answer;
use crate::server::reply::event_stream::Events;
use crate::server::reply::watch_stream::WatchHead;
use crate::server::reply::{cors, refusal};
use crate::server::stage::context::{CacheResult, RequestContext};
use crate::server::stage::forwarded::Authority;
use crate::server::stage::observed::AnswerObserver;
use crate::server::stage::{Identified, PendingGrant, audit, flow_control, forward_slots, seats};

/// How a request is answered.
pub(super) enum Reply {
    /// With an answer that was made here.
    Whole(Answer),
    /// With a watch of the cache.
    Watch(Box<Watch>, WatchHead),
    /// With events that are made here.
    Events(Events),
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
    Failure(Failure),
}

impl From<Answer> for Stop {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

pub(super) async fn reply(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    large_heads: &LargeHeads,
) -> Result<Reply, Failure> {
    match take_steps(exchange, ctx, large_heads).await {
        Ok(reply) => Ok(reply),
        Err(Stop::Answer(answer)) => Ok(Reply::Whole(answer)),
        Err(Stop::Failure(failure)) => Err(failure),
    }
}

async fn take_steps(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    large_heads: &LargeHeads,
) -> Step<Reply> {
    let identified = admit(exchange, ctx, large_heads).await?;
    match query::answer(exchange, ctx, &identified).await? {
        Some(query::Reply::Whole(answer)) => return Ok(Reply::Whole(answer)),
        Some(query::Reply::Live(events)) => return Ok(Reply::Events(events)),
        None => {}
    }
    let Forwarding {
        cache,
        authority,
        backend,
    } = match answer_here(exchange, ctx, &identified).await? {
        Here::Answered(reply) => return Ok(reply),
        Here::Forwarded(forwarding) => forwarding,
    };
    ctx.reply.cache = cache;
    if let Some(answer) = self_review::answer(exchange, ctx, &identified).await? {
        return Ok(Reply::Whole(answer));
    }
    let sampled = shadow::begin(exchange.request(), &identified, cache);
    forward_slots::take(exchange.request(), ctx, &authority)
        .map_err(|refused| Answer::too_many_requests(refused.retry_after).out_of(cache))?;
    forward::begin(exchange.request(), ctx, authority, backend);
    let failed = if upgrade::is_relayed(exchange.request(), &identified) {
        upgrade::tunnel(exchange, ctx).await?
    } else if stream::is_stream(exchange.request(), identified.info()) {
        stream::forward(exchange, ctx, sampled).await?
    } else {
        ctx.observer = sampled.map(|sampled| sampled as Box<dyn AnswerObserver>);
        forward::go_on(exchange, ctx).await?;
        return Ok(Reply::Forwarded);
    };
    Ok(match failed {
        Some(answer) => Reply::Whole(answer.out_of(cache)),
        None => Reply::Passed,
    })
}

/// Reads the request, identifies the caller, and waits for a seat.
async fn admit(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    large_heads: &LargeHeads,
) -> Step<Arc<Identified>> {
    ctx.for_browsers = cors::headers(exchange, ctx.generation());
    // A request that two parsers could read differently goes no further.
    match exchange.check_head(
        ctx.generation().settings.max_request_header_bytes,
        large_heads,
    ) {
        Ok(None) => {}
        Ok(large) => ctx.large_head = large,
        Err(refusal) => {
            let headers = &exchange.request().headers;
            let answer = Answer::from_status(&refusal.status(), headers, &Query::default());
            return Err(answer.into());
        }
    }
    let received = match ctx.receive(exchange) {
        Ok(received) => received,
        Err(status) => {
            let nothing = Query::default();
            let query = ctx.query().unwrap_or(&nothing);
            let answer = Answer::from_status(&status, &exchange.request().headers, query);
            return Err(answer.into());
        }
    };
    // apifront would forward the request to itself.
    if cdn_loop::has_passed(&exchange.request().headers) {
        ctx.audit = audit::unasked(exchange.request(), &received);
        let request = exchange.request();
        let answer = refusal::of_loop(request, received.query());
        return Err(answer.into());
    }
    let method = &exchange.request().method;
    if let Some(answer) = cors::preflight(method, ctx.for_browsers.as_deref()) {
        return Err(answer.into());
    }
    // Health must answer even when no API server can tell who is asking.
    if let Some(answer) = own::health(ctx.generation(), exchange.request()) {
        ctx.audit = audit::unasked(exchange.request(), &received);
        ctx.classification = flow_control::of_health(exchange, received).await;
        return Err(answer.into());
    }
    let identified = match ctx.identify(received.clone(), exchange).await? {
        Ok(identified) => identified,
        Err(refused) => {
            let request = exchange.request();
            let answer = refusal::of_caller(&refused, request, received.query());
            return Err(answer.into());
        }
    };
    if let Err(refused) = seats::take(exchange, ctx, &identified).await? {
        let answer = Answer::too_many_requests(refused.retry_after);
        return Err(answer.into());
    }
    Ok(identified)
}

/// What is known of a request before it is forwarded.
struct Forwarding {
    cache: CacheResult,
    authority: Authority,
    backend: Option<InFlight>,
}

enum Here {
    Answered(Reply),
    Forwarded(Forwarding),
}

/// Answers a request without upstream if possible. Fails if the client leaves before
/// upstream has told whether it may make the request.
async fn answer_here(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    identified: &Arc<Identified>,
) -> Step<Here> {
    let mut grant = ctx.pending_grant(identified.clone());
    let mut apart = exchange.apart();
    let (Shown { request, .. }, gone) = apart.split();
    let answered = pin!(async {
        if let Some(answer) = answer_before_cache(request, &mut grant).await {
            return Ok(Here::Answered(Reply::Whole(answer)));
        }
        let cache = match cached::answer(request, &mut grant).await {
            Outcome::Answer(answer) => return Ok(Here::Answered(Reply::Whole(answer))),
            Outcome::Watch(watch, head) => return Ok(Here::Answered(Reply::Watch(watch, head))),
            Outcome::Bypass(reason) => CacheResult::Bypass(reason),
            Outcome::NotAsked => CacheResult::NotAsked,
        };
        let authority = aggregate::authority(request, &mut grant).await;
        let (authority, backend) = authority.map_err(|answer| answer.out_of(cache))?;
        Ok(Here::Forwarded(Forwarding {
            cache,
            authority,
            backend,
        }))
    });
    identified.unless_gone(answered, gone).await?
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
