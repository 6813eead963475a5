//! Forwards upgrade requests. They are like other requests until upstream answers
//! 101. Then the client's connection is joined to one to upstream.
//!
//! No other request becomes a tunnel: `long_running.rs` and `mod.rs` refuse a
//! 101 that nobody asked for.

use std::time::Instant;

use apifront_upstream::long_running::{self, LongRunningBody};
use http::{Method, Response, StatusCode, Version, request, response};
use http_body_util::BodyExt;
use tokio::io::{AsyncWriteExt, BufWriter};

use super::upload::Upload;
use super::{record_write, stream};
use crate::server::exchange::{Exchange, Failure, wire_head};
use crate::server::listener::slow_client::{self, WRITE_TIMEOUT};
use crate::server::reply::answer::Answer;
use crate::server::reply::detached::detach_connection;
use crate::server::reply::head::{self, Kind};
use crate::server::stage::Received;
use crate::server::stage::context::RequestContext;

/// Tells whether the request is forwarded here: an upgrade, or a request of HTTP/1.0
/// that may change something. pingora would drop the upgrade, and would send chunks
/// to the HTTP/1.0 client.
pub(in crate::server) fn is_relayed(request: &request::Parts, received: &Received) -> bool {
    let http_10 = request.version == Version::HTTP_10 && request.method != Method::GET;
    received.upgrade().is_some() || http_10
}

/// Asks upstream to upgrade. If upstream agrees, a task of its own joins the two
/// connections. Returns the answer if that fails.
pub(in crate::server) async fn tunnel(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
) -> Result<Option<Answer>, Failure> {
    let (upload, mut response) = match stream::ask_upstream(exchange, ctx).await? {
        Ok(asked) => asked,
        Err(answer) => return Ok(Some(answer)),
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        if !upload.is_passed_on(exchange) {
            // Upstream has begun to carry out the request, so it must not be tried
            // again.
            return Ok(Some(stream::outcome_unknown(exchange, ctx)?));
        }
        let upgrade = hyper::upgrade::on(&mut response);
        let (head, _) = response.into_parts();
        return switch(exchange, ctx, head, upgrade).await;
    }
    let received = ctx.stage().received();
    if received.is_some_and(|r| stream::is_stream(exchange.request(), r.info())) {
        return stream::pass_on(exchange, ctx, None, upload, response).await;
    }
    relay(exchange, ctx, upload, response).await?;
    Ok(None)
}

async fn switch(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    mut head: response::Parts,
    upgrade: hyper::upgrade::OnUpgrade,
) -> Result<Option<Answer>, Failure> {
    if let Some(forward) = &mut ctx.forward {
        forward.answered = Some(Instant::now());
    }
    head::finish(Kind::Tunnel, &mut head, exchange.request(), ctx).await;
    let stop = stream::stop(ctx);
    let (mut client, detached) = detach_connection(exchange, ctx)?;
    let head = wire_head::switching_protocols(&head);
    tokio::spawn(async move {
        let talk = async {
            let mut buffered = BufWriter::new(&mut client);
            buffered.write_all(&head).await?;
            buffered.flush().await?;
            long_running::join(client, upgrade).await
        };
        let why = tokio::select! {
            joined = talk => {
                if let Err(error) = joined {
                    tracing::debug!(%error, "tunnel broke off");
                }
                ""
            }
            why = stop => why,
        };
        detached.end(why);
    });
    Ok(None)
}

/// Passes on an ordinary answer, and the rest of the body in the other direction.
async fn relay(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    mut upload: Upload,
    response: Response<LongRunningBody>,
) -> Result<(), Failure> {
    exchange.set_write_timeout(WRITE_TIMEOUT);
    let mut body = stream::send_head(exchange, ctx, response).await?;
    if ctx.forward.as_ref().is_some_and(|f| !f.long_running) {
        slow_client::answer_begins();
    }
    loop {
        let trail = ctx.audit.as_deref_mut();
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            gone = upload.go_on(exchange, trail) => return gone.map(|never| match never {}),
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(Failure::upstream_broke_off)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        ctx.reply.bytes = ctx.reply.bytes.saturating_add(data.len());
        slow_client::answer_written(data.len());
        if let Some(trail) = &mut ctx.audit {
            trail.response_piece(&data);
        }
        if let Some(forward) = &mut ctx.forward {
            record_write::learn(&data, false, forward);
        }
        exchange.write_body(data, false).await?;
    }
    if let Some(forward) = &mut ctx.forward {
        record_write::learn(&[], true, forward);
    }
    exchange.end_body().await
}
