//! Forwards upgrade requests: the client's connection is joined to one
//! upstream.

use std::time::Instant;

use apifront_upstream::long_running::{self, LongRunningBody};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING, WARNING};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use pingora_core::{Error, ErrorType, Result};
use pingora_proxy::Session;
use tokio::io::{AsyncWriteExt, BufWriter};

use super::detached::detach_stream;
use super::respond::Answer;
use super::{deprecation, stream};
use crate::server::stage::context::RequestContext;

/// Asks upstream to upgrade. If upstream agrees, a task of its own joins the
/// two connections. Returns the answer if that failed.
pub(in crate::server) async fn tunnel(
    session: &mut Session,
    ctx: &mut RequestContext,
) -> Result<Option<Answer>> {
    // The request is not repeated: whatever its method, it may start a command.
    let mut response = match stream::ask_upstream(session, ctx, false).await? {
        Ok(response) => response,
        Err(answer) => return Ok(Some(answer)),
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgrade = hyper::upgrade::on(&mut response);
        return switch(session, ctx, response.map(drop), upgrade).await;
    }
    decline(session, ctx, response).await?;
    Ok(None)
}

async fn switch(
    session: &mut Session,
    ctx: &mut RequestContext,
    mut response: Response<()>,
    upgrade: hyper::upgrade::OnUpgrade,
) -> Result<Option<Answer>> {
    ctx.reply.code = StatusCode::SWITCHING_PROTOCOLS.as_u16();
    if let Some(forward) = &mut ctx.forward {
        forward.answered = Some(Instant::now());
    }
    let status = response.status();
    if let Some(warnings) = deprecation::of_forwarded(ctx, status, response.headers()).await {
        response.headers_mut().remove(WARNING);
        for warning in warnings {
            response.headers_mut().append(WARNING, warning);
        }
    }
    let stop = stream::stop(ctx);
    let (mut client, mut detached) = detach_stream(session, ctx)?;
    detached.answered(ctx.reply.code, response.headers());
    let head = response_head(&response);
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

fn response_head(response: &Response<()>) -> Vec<u8> {
    let mut head = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
    for (name, value) in response.headers() {
        // These headers do not belong to a 101 (RFC 9110, 8.6).
        if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
            continue;
        }
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Passes on an ordinary answer, and closes the connection. What follows on a
/// connection that asked for an upgrade cannot be trusted (CVE-2020-8559).
async fn decline(
    session: &mut Session,
    ctx: &mut RequestContext,
    response: Response<LongRunningBody>,
) -> Result<()> {
    session.set_keepalive(None);
    let mut body = stream::send_head(session, ctx, response).await?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Error::because(ErrorType::ReadError, "upstream", e))?;
        if let Ok(data) = frame.into_data() {
            ctx.reply.bytes = ctx.reply.bytes.saturating_add(data.len());
            if let Some(trail) = &mut ctx.audit {
                trail.response_piece(&data);
            }
            session.write_response_body(Some(data), false).await?;
        }
    }
    session.write_response_body(None, true).await
}
