//! Writes a watch to its client. While there is something to write, the watch has a
//! task of its own. Otherwise it joins a group of watches.

use std::sync::Arc;
use std::task::{Context, Poll};

use apifront_watch_cache::read::HitCost;
use apifront_watch_cache::watch::{Given, Step, Tally, Watch, WatchClient, WatchGroups};
use bytes::Bytes;
use futures::FutureExt;
use h2::Reason;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TRANSFER_ENCODING, VARY, WARNING};
use http::{HeaderValue, Response, Version};

use super::detached::{Detached, Ending, detach};
use super::head::{self, Kind};
use super::watch_client::Client;
use super::websocket_watch;
use crate::identity::VIEW;
use crate::server::exchange::{Exchange, Failure};
use crate::server::listener::slow_client::WRITE_TIMEOUT;
use crate::server::stage::context::{CacheResult, Hit, RequestContext};
use crate::server::stage::seats;
use crate::server::state::drain::Stopping;
use crate::shapes::SHAPE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum StreamEnd {
    /// The watch itself ended.
    Watch(apifront_watch_cache::watch::WatchEnd),
    ClientGone,
    /// The client took too long to read a batch.
    TooSlow,
    ShuttingDown,
}

impl StreamEnd {
    pub(in crate::server) fn as_str(self) -> &'static str {
        match self {
            Self::Watch(end) => end.as_str(),
            Self::ClientGone => "client_gone",
            Self::TooSlow => "too_slow",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

struct Stream {
    watch: Box<Watch>,
    side: Box<Side>,
}

/// The client's side of a watch.
struct Side {
    client: Client,
    detached: Detached,
    stopping: Stopping,
    groups: Arc<WatchGroups>,
}

impl Stream {
    /// Writes batches until the watch, the client or apifront ends. An HTTP/2 watch
    /// with nothing to write leaves this task.
    async fn run(mut self) {
        let stopping = self.side.stopping.clone();
        // This future serves all batches, because a new one for each batch would
        // cost more than the batch.
        let over = stopping.clone().over();
        tokio::pin!(over);
        let end = loop {
            // While the watch has something to send, nothing is polled. So the stop
            // is checked here.
            let stops = stopping.has_begun();
            if stops && over.as_mut().now_or_never().is_some() {
                break StreamEnd::ShuttingDown;
            }
            match self.watch.step() {
                Ok(Step::Batch(frames, events)) => {
                    let begins = !self.watch.has_begun();
                    if let Err(end) = self.write(frames, events).await {
                        break end;
                    }
                    // The first objects of a watch may have taken long to write.
                    if begins {
                        tokio::task::yield_now().await;
                    }
                }
                Ok(Step::Again) => tokio::task::yield_now().await,
                Ok(Step::Idle) => {
                    let Self { watch, side } = &mut self;
                    side.detached.begun();
                    let is_http2 = matches!(side.client, Client::Http2(_));
                    if is_http2 && watch.waits_for_events() && !stops {
                        return self.join_group();
                    }
                    tokio::select! {
                        biased;
                        () = watch.changed() => {}
                        () = &mut over => break StreamEnd::ShuttingDown,
                        () = side.client.gone() => break StreamEnd::ClientGone,
                    }
                }
                Err(end) => break StreamEnd::Watch(end),
            }
        };
        drop(self.watch);
        // The end has its own box, so that an open watch takes no memory for it.
        Box::pin(self.side.finish(end)).await;
    }

    async fn write(&mut self, frames: Bytes, events: usize) -> Result<(), StreamEnd> {
        let Self { watch, side } = self;
        let Side {
            client, detached, ..
        } = &mut **side;
        detached.sent(frames.len(), events, watch.has_begun());
        match client.write_at_once(std::slice::from_ref(&frames)) {
            Some(written) => written.map_err(|_| StreamEnd::ClientGone)?,
            None => seats::write(client.write(frames), || detached.release_seats()).await?,
        }
        detached.delivered(watch.arrived());
        Ok(())
    }

    fn join_group(self) {
        let Self { watch, side } = self;
        let (groups, stopping) = (side.groups.clone(), side.stopping.clone());
        groups.join(watch, side, stopping.begun());
    }
}

impl Side {
    /// Ends the stream. It ends in order if the client is still there.
    async fn finish(mut self, end: StreamEnd) {
        let is_there = !matches!(end, StreamEnd::ClientGone | StreamEnd::TooSlow);
        let ending = match is_there {
            true => match self.client.finish().await {
                Ok(()) => Ending {
                    why: end.as_str(),
                    in_order: true,
                },
                Err(()) => Ending::broken(StreamEnd::ClientGone.as_str()),
            },
            false => Ending::broken(end.as_str()),
        };
        match self.client {
            Client::Http1(client) => self.detached.end_with(*client, ending).await,
            Client::Http2(mut stream) => {
                if !ending.in_order {
                    stream.send_reset(Reason::INTERNAL_ERROR);
                }
                self.detached.end(ending.why);
            }
        }
    }
}

impl WatchClient for Side {
    fn give(&mut self, frames: &[Bytes]) -> Given {
        match self.client.write_at_once(frames) {
            Some(Ok(())) => {
                self.detached
                    .sent_in_group(frames.iter().map(Bytes::len).sum());
                Given::All
            }
            Some(Err(_)) => Given::Gone,
            None => Given::NoRoom,
        }
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.client.poll_gone(cx)
    }

    fn count(&self, tally: &Tally) {
        self.detached.count(tally);
    }

    fn go_on(self: Box<Self>, watch: Box<Watch>) {
        tokio::spawn(Stream { watch, side: self }.run());
    }

    fn end(self: Box<Self>) {
        self.detached.end(StreamEnd::ClientGone.as_str());
    }
}

/// The values for the header of a watch, besides its form.
#[derive(Default)]
pub(in crate::server) struct WatchHead {
    pub(in crate::server) warnings: Vec<HeaderValue>,
    /// The size of the view, if the watch has one.
    pub(in crate::server) view: Option<HeaderValue>,
    /// The shape of the events, if the client did not ask for it.
    pub(in crate::server) shape: Option<HeaderValue>,
    /// The requests to upstream that the beginning of the watch needed.
    pub(in crate::server) cost: HitCost,
}

/// Starts the task that writes a watch of the cache, as a WebSocket if the caller
/// asked for one.
pub(in crate::server) async fn start(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    watch: Box<Watch>,
    told: &WatchHead,
) -> Result<(), Failure> {
    ctx.reply.cache = CacheResult::Hit(Hit {
        version: watch.version(),
        cost: told.cost,
    });
    let identified = ctx.stage().identified().cloned();
    match identified.as_ref().and_then(|caller| caller.handshake()) {
        Some(handshake) => websocket_watch::start(exchange, ctx, *watch, handshake, told).await,
        None => start_chunks(exchange, ctx, watch, told).await,
    }
}

/// Sends the header, and moves the stream to a task of its own.
async fn start_chunks(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    watch: Box<Watch>,
    told: &WatchHead,
) -> Result<(), Failure> {
    let request = exchange.request();
    let (mut head, ()) = Response::new(()).into_parts();
    let headers = &mut head.headers;
    headers.reserve(head::MAX_ADDED_HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(watch.content_type()));
    if watch.is_compressed() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if request.version == Version::HTTP_11 {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    for warning in &told.warnings {
        headers.append(WARNING, warning.clone());
    }
    if let Some(view) = &told.view {
        headers.insert(VIEW, view.clone());
    }
    if let Some(shape) = &told.shape {
        headers.insert(SHAPE, shape.clone());
    }
    head::finish(Kind::Watch, &mut head, request, ctx).await;
    exchange.set_write_timeout(WRITE_TIMEOUT);
    exchange.write_head(head, false).await?;

    let generation = ctx.generation();
    let (stopping, groups) = (generation.drain.stopping(), generation.watch_groups.clone());
    let (client, mut detached) = detach(exchange, ctx);
    detached.watches(watch.has_begun());
    let side = Box::new(Side {
        client: Client::new(client),
        detached,
        stopping,
        groups,
    });
    side.go_on(watch);
    Ok(())
}
