//! The way of a request, top to bottom. This file is the table of contents;
//! the steps are in the files it names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};

use super::cached::Outcome;
use super::context::{CacheResult, RequestContext};
use super::front::Front;
use super::header_deadline::HeaderRead;
use super::respond::Answer;
use super::{
    aggregate, deprecation, discovery, forward, framing, local, openapi, own_write, pace, record,
    respond, seats, stream, upgrade, watch_stream, websocket_watch,
};
use crate::api::Status;

pub(super) struct Proxy {
    /// Replaced as a whole by a reload.
    pub(super) front: Arc<ArcSwap<Front>>,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = RequestContext;

    fn new_ctx(&self) -> RequestContext {
        RequestContext::new(self.front.load_full())
    }

    /// The request header has been read: its deadline is met.
    fn on_connection_reuse(
        &self,
        _session: &mut Session,
        _ctx: &mut RequestContext,
        user_context: Box<dyn std::any::Any + Send + Sync>,
    ) {
        if let Ok(read) = user_context.downcast::<HeaderRead>() {
            read.done();
        }
    }

    /// Everything apifront answers itself. `Ok(true)`: answered.
    async fn request_filter(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
    ) -> Result<bool> {
        // What two parsers could read differently is refused before anything.
        if let Some(answer) = framing::refuse(session, &ctx.front.config.serving) {
            session.set_keepalive(None);
            return self.finish(session, ctx, answer).await;
        }
        if let Some(answer) = ctx.read(session) {
            return self.finish(session, ctx, answer).await;
        }
        // Health must answer even when nobody can be asked who is asking.
        if let Some(answer) = local::health(session, ctx) {
            ctx.audit_unasked(session);
            return self.finish(session, ctx, answer).await;
        }
        if let Some(answer) = ctx.enter(session).await {
            return self.finish(session, ctx, answer).await;
        }
        if let Some(answer) = seats::take(session, ctx).await? {
            return self.finish(session, ctx, answer).await;
        }
        if let Some(answer) = local::own_paths(session, ctx).await {
            return self.finish(session, ctx, answer).await;
        }
        if let Some(answer) = discovery::answer(session, ctx).await {
            return self.finish(session, ctx, answer).await;
        }
        if let Some(answer) = discovery::refuse_hidden(session, ctx).await {
            return self.finish(session, ctx, answer).await;
        }
        if let Some(answer) = openapi::answer(session, ctx).await {
            return self.finish(session, ctx, answer).await;
        }
        if let Some(answer) = aggregate::before_cache(session, ctx).await {
            return self.finish(session, ctx, answer).await;
        }
        match ctx.ask_cache(session).await {
            Outcome::Answer(answer, version) => {
                ctx.cache = CacheResult::Hit(version);
                return self.finish(session, ctx, answer).await;
            }
            Outcome::NotFound(status, warnings, version) => {
                ctx.cache = CacheResult::Hit(version);
                return self.refuse(session, ctx, &status, &warnings).await;
            }
            Outcome::Watch(watch, warnings) => {
                ctx.cache = CacheResult::Hit(watch.version());
                deprecation::note(ctx, StatusCode::OK, &warnings);
                match ctx.handshake.take() {
                    Some(handshake) => {
                        websocket_watch::start(session, ctx, *watch, &handshake).await?;
                    }
                    None => watch_stream::start(session, ctx, *watch, &warnings).await?,
                }
                return Ok(true);
            }
            Outcome::Refused(status, warnings) => {
                return self.refuse(session, ctx, &status, &warnings).await;
            }
            Outcome::Overloaded => {
                return self.finish(session, ctx, Answer::too_many_requests()).await;
            }
            Outcome::Bypass(reason) => ctx.cache = CacheResult::Bypass(reason),
            Outcome::NotAsked => {}
        }
        if let Some(answer) = aggregate::before_forwarding(session, ctx).await {
            return self.finish(session, ctx, answer).await;
        }
        forward::begin(session, ctx);
        if upgrade::is_upgrade(session.req_header()) {
            return match upgrade::tunnel(session, ctx).await? {
                Some(answer) => self.finish(session, ctx, answer).await,
                None => Ok(true),
            };
        }
        if stream::is_stream(session.req_header(), ctx) {
            return match stream::forward(session, ctx).await? {
                Some(answer) => self.finish(session, ctx, answer).await,
                None => Ok(true),
            };
        }
        forward::go_on(session, ctx).await?;
        Ok(false)
    }

    async fn upstream_peer(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
    ) -> Result<Box<HttpPeer>> {
        forward::peer(session, ctx).await
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut RequestContext,
    ) -> Result<()> {
        forward::rewrite(request, ctx).await
    }

    /// An empty last piece would be sent as a second terminating chunk, which
    /// poisons the upstream connection (pingora issue 935).
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
        pace::received(body.as_ref().map_or(0, Bytes::len), end_of_stream);
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
        ctx.code = response.status.as_u16();
        ctx.forward.answered = Some(Instant::now());
        forward::answer_begins(response, ctx);
        aggregate::answered(response, ctx)?;
        let status = response.status;
        if let Some(warnings) = deprecation::of_forwarded(ctx, status, &response.headers).await {
            deprecation::replace(response, warnings)?;
        }
        own_write::begin(session.req_header(), response, ctx);
        if let Some(trail) = &mut ctx.audit {
            trail.response(ctx.code, &response.headers);
        }
        respond::debug_header(response, session.req_header(), ctx.cache)
    }

    /// What the caller is told it wrote, its later reads must show.
    fn response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut RequestContext,
    ) -> Result<Option<Duration>> {
        pace::answered(body.as_ref().map_or(0, Bytes::len));
        own_write::learn(body.as_deref().unwrap_or_default(), end_of_stream, ctx);
        if let (Some(trail), Some(piece)) = (&mut ctx.audit, body.as_ref()) {
            trail.response_piece(piece);
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
        forward::could_not_connect(ctx, error)
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        ctx: &mut RequestContext,
        client_reused: bool,
    ) -> Box<Error> {
        forward::broke_off(session, ctx, error, client_reused)
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
        if !ctx.detached {
            record::request(session, ctx, error);
            ctx.audit = None;
        }
    }

    /// The log lines here are ours.
    fn suppress_error_log(&self, _: &Session, _: &RequestContext, _: &Error) -> bool {
        true
    }
}

impl Proxy {
    async fn refuse(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
        status: &Status,
        warnings: &[HeaderValue],
    ) -> Result<bool> {
        let mut answer = Answer::from_status(status, &session.req_header().headers, &ctx.query);
        answer.warn(warnings);
        self.finish(session, ctx, answer).await
    }

    async fn finish(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
        answer: Answer,
    ) -> Result<bool> {
        ctx.code = answer.status.as_u16();
        ctx.audit_answer(&answer);
        deprecation::note_answer(ctx, answer.status, &answer.headers);
        ctx.response_bytes = respond::send(session, answer, ctx).await?;
        Ok(true)
    }
}
