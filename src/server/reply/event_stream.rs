//! Writes events that apifront makes itself to a client, for as long as both go on.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use h2::Reason;
use http::header::{CONTENT_TYPE, TRANSFER_ENCODING, WARNING};
use http::{HeaderValue, Response, Version};

use super::detached::{Detached, Ending, detach};
use super::head::{self, Kind};
use super::watch_client::Client;
use super::watch_stream::StreamEnd;
use crate::server::exchange::{Exchange, Failure};
use crate::server::listener::slow_client::WRITE_TIMEOUT;
use crate::server::stage::context::{CacheResult, RequestContext};
use crate::server::stage::seats;
use crate::server::state::drain::Stopping;

/// The label of a stream that came to its end.
const ENDED: &str = "ended";

/// Events in JSON, each with a line of its own.
pub(in crate::server) struct Events {
    pub(in crate::server) lines: BoxStream<'static, Bytes>,
    pub(in crate::server) warnings: Vec<HeaderValue>,
    pub(in crate::server) cache: CacheResult,
}

/// Sends the header, and moves the stream to a task of its own.
pub(in crate::server) async fn start(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    events: Events,
) -> Result<(), Failure> {
    ctx.reply.cache = events.cache;
    let request = exchange.request();
    let (mut head, ()) = Response::new(()).into_parts();
    let headers = &mut head.headers;
    headers.reserve(head::MAX_ADDED_HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if request.version == Version::HTTP_11 {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    for warning in events.warnings {
        headers.append(WARNING, warning);
    }
    head::finish(Kind::Watch, &mut head, request, ctx).await;
    exchange.set_write_timeout(WRITE_TIMEOUT);
    exchange.write_head(head, false).await?;
    let stopping = ctx.generation().drain.stopping();
    let (client, mut detached) = detach(exchange, ctx);
    let mut client = Client::new(client);
    tokio::spawn(async move {
        let end = write(events.lines, &mut client, &mut detached, stopping).await;
        finish(end, client, detached).await;
    });
    Ok(())
}

/// Writes events until they, the client or apifront end. Returns `None` if the events
/// ended.
async fn write(
    mut lines: BoxStream<'static, Bytes>,
    client: &mut Client,
    detached: &mut Detached,
    stopping: Stopping,
) -> Option<StreamEnd> {
    let over = stopping.over();
    tokio::pin!(over);
    loop {
        let line = tokio::select! {
            biased;
            () = &mut over => return Some(StreamEnd::ShuttingDown),
            () = client.gone() => return Some(StreamEnd::ClientGone),
            line = lines.next() => line?,
        };
        detached.passes(&line);
        let written = seats::write(client.write(line), || detached.release_seats()).await;
        if let Err(end) = written {
            return Some(end);
        }
        // The first event took the work.
        detached.release_seats();
    }
}

async fn finish(end: Option<StreamEnd>, mut client: Client, detached: Detached) {
    let why = end.map_or(ENDED, StreamEnd::as_str);
    let is_there = !matches!(end, Some(StreamEnd::ClientGone | StreamEnd::TooSlow));
    let ending = match is_there {
        true if client.finish().await.is_err() => Ending::broken(StreamEnd::ClientGone.as_str()),
        true => Ending {
            why,
            in_order: true,
        },
        false => Ending::broken(why),
    };
    match client {
        Client::Http1(client) => detached.end_with(*client, ending).await,
        Client::Http2(mut stream) => {
            if !ending.in_order {
                stream.send_reset(Reason::INTERNAL_ERROR);
            }
            detached.end(ending.why);
        }
    }
}
