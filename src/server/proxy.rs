//! Serves pingora's phases: `steps.rs` decides how a request is answered, and here its
//! answer is sent.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};

use crate::server::answer::self_review;
use crate::server::exchange::answer_head::{AnswerHead as _, PassedHead};
use crate::server::exchange::{Culprit, Exchange};
use crate::server::forward::{self, attempts, failed, record_write, request_head};
use crate::server::listener::http1::HeadRead;
use crate::server::listener::large_heads::LargeHeads;
use crate::server::listener::slow_client;
use crate::server::reply::head::{self, Kind};
use crate::server::reply::{event_stream, send, watch_stream};
use crate::server::stage::access_log;
use crate::server::stage::context::RequestContext;
use crate::server::state::generation::Generation;
use crate::server::steps::{self, Reply};

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
            ctx.large_head = Exchange::new(session).complete_head(read.rest);
        }
    }

    /// `Ok(true)`: answered, or a task answers. `Ok(false)`: pingora forwards the
    /// request.
    async fn request_filter(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
    ) -> Result<bool> {
        let mut exchange = Exchange::new(session);
        match steps::reply(&mut exchange, ctx, &self.large_heads).await? {
            Reply::Whole(answer) => send::send(&mut exchange, answer, ctx).await?,
            Reply::Watch(watch, head) => {
                watch_stream::start(&mut exchange, ctx, watch, &head).await?;
            }
            Reply::Events(events) => event_stream::start(&mut exchange, ctx, events).await?,
            Reply::Passed => {}
            Reply::Forwarded => return Ok(false),
        }
        Ok(true)
    }

    async fn upstream_peer(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
    ) -> Result<Box<HttpPeer>> {
        match &mut ctx.forward {
            Some(forward) => attempts::peer(&mut Exchange::new(session), forward).await,
            None => Err(forward::not_forwarded().into()),
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
                request_head::rewrite(request, forward, trail, span).await
            }
            None => Err(forward::not_forwarded().into()),
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
        let mut head = PassedHead::new(response);
        forward::answer_arrived(head.read(), ctx)?;
        let request = session.req_header();
        if let Some(keeper) = ctx.keeper.as_deref_mut() {
            self_review::answer_begins(request, &mut head, keeper);
        }
        head::finish(Kind::Forwarded, &mut head, request, ctx).await;
        if let Some(forward) = &mut ctx.forward {
            record_write::begin(&request.method, head.read(), forward);
        }
        Ok(head.give_back(request.version)?)
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
        attempts::could_not_connect(ctx.forward.as_ref(), error)
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        ctx: &mut RequestContext,
        client_reused: bool,
    ) -> Box<Error> {
        attempts::broke_off(
            &Exchange::new(session),
            ctx.forward.as_mut(),
            error,
            client_reused,
        )
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        ctx: &mut RequestContext,
    ) -> FailToProxy {
        FailToProxy {
            error_code: failed::answer(&mut Exchange::new(session), ctx, error).await,
            can_reuse_downstream: false,
        }
    }

    async fn logging(
        &self,
        session: &mut Session,
        error: Option<&Error>,
        ctx: &mut RequestContext,
    ) {
        if !ctx.reply.detached {
            let broken_by = error.map(Culprit::from_error);
            access_log::record_request(&Exchange::new(session), ctx, broken_by);
            ctx.audit = None;
        }
    }

    fn suppress_error_log(&self, _: &Session, _: &RequestContext, _: &Error) -> bool {
        true
    }
}
