//! Forwards requests that stay open: watches that the cache does not serve, and
//! logs. Each has an upstream connection of its own. Once its answer has begun, it
//! also has a task of its own, which can end it in order when apifront stops.

use std::time::{Duration, Instant};

use apifront_upstream::HOP_BY_HOP;
use apifront_upstream::long_running::{AnsweredBy, LongRunningBody, LongRunningError, Sending};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Response, StatusCode, Version, request};
use http_body_util::BodyExt;
use kubernetes_wire::api::{Query, Status};
use kubernetes_wire::request::RequestInfo;

use super::upload::Upload;
use super::watch_frames::Frames;
use super::{aggregate, record_write, request_head};
use crate::server::answer::shadow::{Capture, Tee};
use crate::server::exchange::client_stream::ClientStream;
use crate::server::exchange::{Exchange, Failure};
use crate::server::listener::slow_client::WRITE_TIMEOUT;
use crate::server::reply::answer::Answer;
use crate::server::reply::detached::{Detached, Ending, detach};
use crate::server::reply::head::{self, Kind};
use crate::server::reply::refusal;
use crate::server::stage::context::RequestContext;
use crate::server::stage::forwarded::Forward;

/// How long a stop waits for the end of a half-sent event.
const LAST_EVENT: Duration = Duration::from_secs(1);

/// The reason for the end of an answer whose upstream connection ended too early.
const BROKE_OFF: &str = "upstream_broke_off";
const CLIENT_GONE: &str = "client_gone";

/// Tells whether the request is forwarded here and not by pingora: a stream, or a
/// GET of HTTP/1.0. pingora sends chunks even to clients of HTTP/1.0.
pub(in crate::server) fn is_stream(request: &request::Parts, info: &RequestInfo) -> bool {
    let stream = info.verb == "watch" || info.subresource == "log";
    request.method == Method::GET && (stream || request.version == Version::HTTP_10)
}

/// Forwards the request. Returns the answer if that fails.
pub(in crate::server) async fn forward(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    sampled: Option<Box<Capture>>,
) -> Result<Option<Answer>, Failure> {
    match ask_upstream(exchange, ctx).await? {
        Ok((upload, response)) => pass_on(exchange, ctx, sampled, upload, response).await,
        Err(answer) => Ok(Some(answer)),
    }
}

/// Passes on upstream's answer in a task of its own. Returns another answer if the
/// request's body goes on for too long.
pub(in crate::server) async fn pass_on(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    sampled: Option<Box<Capture>>,
    mut upload: Upload,
    response: Response<LongRunningBody>,
) -> Result<Option<Answer>, Failure> {
    // The task of the stream does not read a body.
    if !upload.finish(exchange, ctx.audit.as_deref_mut()).await {
        exchange.close_http1_after();
        let status = Status::too_large("this request takes no body");
        let headers = &exchange.request().headers;
        let nothing = Query::default();
        let query = ctx.query().unwrap_or(&nothing);
        return Ok(Some(Answer::from_status(&status, headers, query)));
    }
    let content_type = response.headers().get(CONTENT_TYPE).cloned();
    let mut tee = sampled.and_then(|sampled| {
        let (status, headers) = (response.status(), response.headers());
        sampled.follow(status, headers)
    });
    exchange.set_write_timeout(WRITE_TIMEOUT);
    let has_ended = is_bodiless(response.status()) && !exchange.is_http1();
    let mut body = send_head(exchange, ctx, response).await?;
    let mut frames = Frames::for_content_type(content_type.as_ref());
    let is_watch = ctx.is_watch();
    let stop = stop(ctx);
    let (mut client, mut detached) = detach(exchange, ctx);
    // Upstream sets the pace of what follows, even of a watch's initial events.
    detached.release_seats();
    tokio::spawn(async move {
        let mut passed = Passed {
            frames: &mut frames,
            detached: &mut detached,
            tee: &mut tee,
        };
        let mut ending = match has_ended {
            true => Ending {
                why: "upstream",
                in_order: true,
            },
            false => pump(&mut client, &mut body, &mut passed, stop).await,
        };
        if ending.why == BROKE_OFF {
            // A watch may end after any event, because its client goes on from the
            // last one. From an error in the stream, client-go makes an event and
            // lists again.
            if is_watch && frames.at_boundary() {
                ending = end(&mut client, BROKE_OFF).await;
            }
            detached.aborted();
        }
        // The end has its own box, so that an open stream takes no memory for it.
        Box::pin(detached.end_with(client, ending)).await;
    });
    Ok(None)
}

/// Sends the request to upstream, and as much of its body as comes before the
/// answer. The inner error is the answer if that fails. Returns early if the client
/// goes away.
pub(in crate::server) async fn ask_upstream(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
) -> Result<Result<(Upload, Response<LongRunningBody>), Answer>, Failure> {
    let Some(forward) = &mut ctx.forward else {
        return Err(super::not_forwarded());
    };
    let span = ctx.span.as_deref_mut();
    let has_body = exchange.has_body();
    let request = match request_head::without_pingora(exchange, has_body, forward, span) {
        Ok(request) => request,
        Err(error) => {
            let status = Status::bad_request(format!("the request cannot be forwarded: {error}"));
            return Ok(Err(answer(&status, exchange, forward)));
        }
    };
    let method = &exchange.request().method;
    let sending = match forward.upgrade() {
        Some(_) => Sending::Upgrade,
        None if *method == Method::GET && !has_body => Sending::Repeatable,
        None => Sending::Once,
    };
    let (mut upload, body) = Upload::begin(exchange).await?;
    forward.asked = Some(Instant::now());
    let trail = ctx.audit.as_deref_mut();
    let asked = tokio::select! {
        asked = forward.upstream.send_long_running(request, body, sending) => asked,
        gone = upload.go_on(exchange, trail) => return gone.map(|never| match never {}),
    };
    match asked {
        Ok(response) => {
            if let Some(span) = &mut ctx.span {
                if let Some(AnsweredBy(server)) = response.extensions().get() {
                    span.asked(&server.name);
                }
                span.answered(response.status().as_u16());
            }
            let checked = aggregate::checked(response, forward);
            Ok(checked.map(|response| (upload, response)))
        }
        Err(error) => {
            tracing::warn!(%error, "request could not be forwarded");
            if forward.route().is_some() {
                return Ok(Err(aggregate::unreachable(&error.to_string())));
            }
            let status = match error {
                LongRunningError::Http {
                    unprocessed: false, ..
                } if sending != Sending::Repeatable => super::unknown_outcome(),
                LongRunningError::Switched => super::switched(),
                _ => refusal::unreachable(),
            };
            Ok(Err(answer(&status, exchange, forward)))
        }
    }
}

/// Returns the answer to a request that upstream may have carried out.
pub(in crate::server) fn outcome_unknown(
    exchange: &Exchange<'_>,
    ctx: &RequestContext,
) -> Result<Answer, Failure> {
    match &ctx.forward {
        Some(forward) => Ok(answer(&super::unknown_outcome(), exchange, forward)),
        None => Err(super::not_forwarded()),
    }
}

fn answer(status: &Status, exchange: &Exchange<'_>, forward: &Forward) -> Answer {
    let headers = &exchange.request().headers;
    Answer::from_status(status, headers, forward.query())
}

/// Sends the head of upstream's answer to the client, and returns its body.
pub(in crate::server) async fn send_head(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    response: Response<LongRunningBody>,
) -> Result<LongRunningBody, Failure> {
    if let Some(forward) = &mut ctx.forward {
        forward.answered = Some(Instant::now());
    }
    let (mut head, body) = response.into_parts();
    let request = exchange.request();
    head::finish(Kind::Forwarded, &mut head, request, ctx).await;
    if let Some(forward) = &mut ctx.forward {
        record_write::begin(&request.method, &head, forward);
    }
    for name in &HOP_BY_HOP {
        head.headers.remove(name);
    }
    if !head.headers.contains_key(CONTENT_LENGTH) && request.version == Version::HTTP_11 {
        let chunked = HeaderValue::from_static("chunked");
        head.headers.insert(TRANSFER_ENCODING, chunked);
    }
    // The client's connection is not that of upstream.
    head.version = Version::HTTP_11;
    head.extensions.clear();
    match is_bodiless(head.status) {
        true => exchange.write_head_without_body(head).await?,
        false => exchange.write_head(head, false).await?,
    }
    Ok(body)
}

/// Tells whether an answer to GET has no body, whatever its fields say (RFC 9110,
/// 6.4.1).
fn is_bodiless(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Resolves when the stream must end, with the reason.
pub(in crate::server) fn stop(
    ctx: &RequestContext,
) -> impl Future<Output = &'static str> + Send + use<> {
    let over = ctx.generation().drain.stopping().over();
    let info = ctx.stage().received().map(|received| received.info());
    let resource = info.filter(|info| info.is_resource_request);
    let hidden = resource.map(|info| ctx.generation().discovery.until_hidden(info.gvr.clone()));
    let hidden = futures::future::OptionFuture::from(hidden);
    async move {
        tokio::select! {
            () = over => "shutting_down",
            Some(()) = hidden => "hidden",
        }
    }
}

/// The parts that see each piece of the answer.
struct Passed<'a> {
    frames: &'a mut Frames,
    detached: &'a mut Detached,
    tee: &'a mut Option<Tee>,
}

impl Passed<'_> {
    fn seen(&mut self, data: &Bytes) {
        self.frames.seen(data);
        self.detached.passes(data);
        if self.tee.as_ref().is_some_and(|tee| !tee.push(data)) {
            *self.tee = None;
        }
    }
}

/// Copies upstream's answer to the client, until upstream, the client or `stop`
/// ends it.
async fn pump(
    client: &mut ClientStream,
    body: &mut LongRunningBody,
    passed: &mut Passed<'_>,
    stop: impl Future<Output = &'static str>,
) -> Ending {
    tokio::pin!(stop);
    // The reason for the stop, and the time since when the end of an event is
    // awaited.
    let mut stopping: Option<(&str, tokio::time::Instant)> = None;
    loop {
        if let Some((why, _)) = stopping
            && passed.frames.at_boundary()
        {
            return end(client, why).await;
        }
        let frame = tokio::select! {
            biased;
            why = &mut stop, if stopping.is_none() => {
                stopping = Some((why, tokio::time::Instant::now()));
                continue;
            }
            why = async {
                match stopping {
                    Some((why, since)) => {
                        tokio::time::sleep(LAST_EVENT.saturating_sub(since.elapsed())).await;
                        why
                    }
                    None => std::future::pending().await,
                }
            } => return Ending::broken(why),
            _ = client.gone() => return Ending::broken(CLIENT_GONE),
            frame = body.frame() => frame,
        };
        let data = match frame {
            None => return end(client, "upstream").await,
            // This is not an end in order, because the client must not take it for
            // the end of the answer.
            Some(Err(error)) => {
                tracing::info!(%error, "upstream broke off");
                return Ending::broken(BROKE_OFF);
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => data,
                Err(_) => continue,
            },
        };
        passed.seen(&data);
        if client.write(data).await.is_err() {
            return Ending::broken(CLIENT_GONE);
        }
    }
}

async fn end(client: &mut ClientStream, why: &'static str) -> Ending {
    match client.end().await {
        Ok(()) => Ending {
            why,
            in_order: true,
        },
        Err(_) => Ending::broken(CLIENT_GONE),
    }
}
