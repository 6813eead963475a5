//! The steps that serve a request, from top to bottom. This file is the table of
//! contents; the steps are in the files that it names.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::cdn_loop;
use apifront_watch_cache::watch::Watch;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use kubernetes_wire::api::Query;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};

use crate::server::answer::cached::{self, Outcome};
use crate::server::answer::head::{self, Kind};
use crate::server::answer::respond::{self, Answer};
use crate::server::answer::watch_stream::WatchHead;
use crate::server::answer::{
    aggregate, browsers, discovery, forward, openapi, own_endpoints, record_write, refusal,
    self_review, shadow, stream, upgrade, watch_stream, websocket_watch, wire_head,
};
use crate::server::listener::http1::HeadRead;
use crate::server::listener::large_heads::LargeHeads;
use crate::server::listener::{framing, slow_client};
use crate::server::stage::context::{CacheResult, Hit, RequestContext};
use crate::server::stage::observed::AnswerObserver;
use crate::server::stage::{
    Identified, PendingGrant, access_log, audit, flow_control, places, seats,
};
use crate::server::state::generation::Generation;

pub(super) struct Proxy {
    /// A reload replaces the generation as a whole.
    pub(super) current: Arc<ArcSwap<Generation>>,
    pub(super) large_heads: LargeHeads,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = RequestContext;

    fn new_ctx(&self) -> RequestContext {
        RequestContext::new(self.current.load_full())
    }

    /// Takes over the part of an HTTP/1 request's head that pingora has not
    /// read.
    fn on_connection_reuse(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
        user_context: Box<dyn std::any::Any + Send + Sync>,
    ) {
        if let Ok(read) = user_context.downcast::<HeadRead>() {
            ctx.next_request = Some(read.next);
            ctx.large_head = read.rest.complete(session.req_header_mut());
        }
    }

    /// Answers everything that apifront answers itself. `Ok(true)`: answered,
    /// or a task answers. `Ok(false)`: pingora forwards the request.
    async fn request_filter(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
    ) -> Result<bool> {
        let identified = match admit(session, ctx, &self.large_heads).await? {
            ControlFlow::Continue(identified) => identified,
            ControlFlow::Break(answer) => return finish(session, ctx, answer).await,
        };
        let request = session.req_header();
        let mut grant = ctx.pending_grant(identified.clone());
        if let Some(answer) = answer_before_cache(request, &mut grant).await {
            return finish(session, ctx, answer).await;
        }
        let cache = match cached::answer(request, &mut grant).await {
            Outcome::Answer(answer) => return finish(session, ctx, answer).await,
            Outcome::Watch(watch, head) => {
                start_watch(session, ctx, &identified, watch, &head).await?;
                return Ok(true);
            }
            Outcome::Bypass(reason) => CacheResult::Bypass(reason),
            Outcome::NotAsked => CacheResult::NotAsked,
        };
        let (authority, backend) = match aggregate::authority(request, &mut grant).await {
            Ok(authority) => authority,
            Err(answer) => return finish(session, ctx, answer.out_of(cache)).await,
        };
        ctx.reply.cache = cache;
        if let Some(answer) = self_review::answer(session, ctx, &identified).await? {
            return finish(session, ctx, answer).await;
        }
        let sampled = shadow::begin(session.req_header(), &identified, cache);
        if let Err(refused) = places::take(session, ctx, &authority) {
            let answer = Answer::too_many_requests(refused.retry_after);
            return finish(session, ctx, answer.out_of(cache)).await;
        }
        forward::begin(session, ctx, authority, backend);
        let failed = if upgrade::is_relayed(session.req_header(), &identified) {
            upgrade::tunnel(session, ctx).await?
        } else if stream::is_stream(session.req_header(), identified.info()) {
            stream::forward(session, ctx, sampled).await?
        } else {
            ctx.observer = sampled.map(|sampled| sampled as Box<dyn AnswerObserver>);
            match &ctx.forward {
                Some(forward) => forward::go_on(session, forward).await?,
                None => return forward::not_forwarded(),
            }
            return Ok(false);
        };
        match failed {
            Some(answer) => finish(session, ctx, answer.out_of(cache)).await,
            None => Ok(true),
        }
    }

    async fn upstream_peer(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
    ) -> Result<Box<HttpPeer>> {
        match &mut ctx.forward {
            Some(forward) => forward::peer(session, forward).await,
            None => forward::not_forwarded(),
        }
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut RequestContext,
    ) -> Result<()> {
        match &ctx.forward {
            Some(forward) => {
                let (trail, span) = (ctx.audit.as_deref_mut(), ctx.span.as_deref_mut());
                forward::rewrite(request, forward, trail, span).await
            }
            None => forward::not_forwarded(),
        }
    }

    /// Removes an empty last piece. It would be sent as a second terminating
    /// chunk, which poisons the upstream connection (pingora issue 935).
    async fn request_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut RequestContext,
    ) -> Result<()> {
        if let (Some(trail), Some(piece)) = (&mut ctx.audit, body.as_ref()) {
            trail.request_piece(piece);
        }
        slow_client::body_received(body.as_ref().map_or(0, Bytes::len), end_of_stream);
        if end_of_stream && body.as_ref().is_some_and(Bytes::is_empty) {
            *body = None;
        }
        Ok(())
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut RequestContext,
    ) -> Result<()> {
        let mut head = wire_head::take(response);
        forward::answer_arrived(&head, ctx)?;
        let request = session.req_header();
        if let Some(keeper) = ctx.keeper.as_deref_mut() {
            self_review::answer_begins(request, &mut head, keeper);
        }
        head::finish(Kind::Forwarded, &mut head, request, ctx).await;
        *response = wire_head::of(head, request.version)?;
        Ok(())
    }

    /// Reads the version that a write made out of its answer, because the caller's
    /// later reads must show that version.
    fn response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut RequestContext,
    ) -> Result<Option<Duration>> {
        if let Some(keeper) = &mut ctx.keeper {
            keeper.piece(body);
        }
        slow_client::answer_written(body.as_ref().map_or(0, Bytes::len));
        if let Some(forward) = &mut ctx.forward {
            record_write::learn(body.as_deref().unwrap_or_default(), end_of_stream, forward);
        }
        if let (Some(trail), Some(piece)) = (&mut ctx.audit, body.as_ref()) {
            trail.response_piece(piece);
        }
        if let Some(observer) = ctx.observer.take() {
            ctx.observer = observer.piece(body.as_deref().unwrap_or_default(), end_of_stream);
        }
        Ok(None)
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        _peer: &HttpPeer,
        ctx: &mut RequestContext,
        error: Box<Error>,
    ) -> Box<Error> {
        forward::could_not_connect(ctx.forward.as_ref(), error)
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        ctx: &mut RequestContext,
        client_reused: bool,
    ) -> Box<Error> {
        forward::broke_off(session, ctx.forward.as_mut(), error, client_reused)
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        ctx: &mut RequestContext,
    ) -> FailToProxy {
        forward::failed(session, ctx, error).await
    }

    async fn logging(
        &self,
        session: &mut Session,
        error: Option<&Error>,
        ctx: &mut RequestContext,
    ) {
        if !ctx.reply.detached {
            access_log::record_request(session, ctx, error);
            ctx.audit = None;
        }
    }

    fn suppress_error_log(&self, _: &Session, _: &RequestContext, _: &Error) -> bool {
        true
    }
}

async fn finish(session: &mut Session, ctx: &mut RequestContext, answer: Answer) -> Result<bool> {
    respond::send(session, answer, ctx).await?;
    Ok(true)
}

/// Reads the request, identifies the caller, and waits for a seat. Breaks with
/// the answer if the request goes no further.
async fn admit(
    session: &mut Session,
    ctx: &mut RequestContext,
    large_heads: &LargeHeads,
) -> Result<ControlFlow<Answer, Arc<Identified>>> {
    ctx.for_browsers = browsers::headers(session, ctx.generation());
    // A request that two parsers could read differently goes no further.
    match framing::check(session, &ctx.generation().config.serving, large_heads) {
        Ok(None) => {}
        Ok(large) => ctx.large_head = large,
        Err(refusal) => {
            let headers = &session.req_header().headers;
            let answer = Answer::from_status(&refusal.status(), headers, &Query::default());
            return Ok(ControlFlow::Break(answer));
        }
    }
    let received = match ctx.receive(session) {
        Ok(received) => received,
        Err(status) => {
            let nothing = Query::default();
            let query = ctx.query().unwrap_or(&nothing);
            let answer = Answer::from_status(&status, &session.req_header().headers, query);
            return Ok(ControlFlow::Break(answer));
        }
    };
    // apifront would forward the request to itself.
    if cdn_loop::has_passed(&session.req_header().headers) {
        ctx.audit = audit::unasked(session, &received);
        let request = session.req_header();
        let answer = refusal::of_loop(request, received.query());
        return Ok(ControlFlow::Break(answer));
    }
    let method = &session.req_header().method;
    if let Some(answer) = browsers::preflight(method, ctx.for_browsers.as_deref()) {
        return Ok(ControlFlow::Break(answer));
    }
    // Health must answer even when no API server can tell who is asking.
    if let Some(answer) = own_endpoints::health(ctx.generation(), session.req_header()) {
        ctx.audit = audit::unasked(session, &received);
        ctx.classification = flow_control::of_health(session, received).await;
        return Ok(ControlFlow::Break(answer));
    }
    let identified = match ctx.identify(received.clone(), session).await? {
        Ok(identified) => identified,
        Err(refused) => {
            let request = session.req_header();
            let answer = refusal::of_caller(&refused, request, received.query());
            return Ok(ControlFlow::Break(answer));
        }
    };
    if let Err(refused) = seats::take(session, ctx, &identified).await? {
        let answer = Answer::too_many_requests(refused.retry_after);
        return Ok(ControlFlow::Break(answer));
    }
    Ok(ControlFlow::Continue(identified))
}

/// Answers requests that the cache has no part in: for apifront's own paths,
/// for discovery and OpenAPI, and for hidden or unavailable APIs.
async fn answer_before_cache(
    request: &RequestHeader,
    grant: &mut PendingGrant<'_>,
) -> Option<Answer> {
    if let Some(answer) = own_endpoints::own_paths(request, grant).await {
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

/// Starts the task that writes a cached watch, as a WebSocket if the caller
/// asked for one.
async fn start_watch(
    session: &mut Session,
    ctx: &mut RequestContext,
    identified: &Identified,
    watch: Box<Watch>,
    head: &WatchHead,
) -> Result<()> {
    ctx.reply.cache = CacheResult::Hit(Hit {
        version: watch.version(),
        cost: head.cost,
    });
    match identified.handshake() {
        Some(handshake) => {
            websocket_watch::start(session, ctx, *watch, handshake, &head.warnings).await
        }
        None => watch_stream::start(session, ctx, watch, head).await,
    }
}
