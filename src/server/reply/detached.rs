//! A request that goes on in a task of its own: a watch, a log, a tunnel.
//!
//! A watch in pingora's request task takes 25 to 77 KB of futures. In a task of its
//! own it takes 6 to 40 KB. A tunnel also needs the bare connection.

use std::mem;
use std::time::Instant;

use apifront_watch_cache::watch::Tally;
use bytes::Bytes;
use http::request;

use crate::audit::Trail;
use crate::server::exchange::client_stream::ClientStream;
use crate::server::exchange::{Exchange, Failure};
use crate::server::listener::coalesce::Coalesced;
use crate::server::listener::http1::NextRequest;
use crate::server::stage::access_log::{Finished, Watching};
use crate::server::stage::context::{Guards, RequestContext};
use crate::server::stage::seats;
use crate::server::stage::talker::Talker;

/// Everything that a detached request holds besides its connection. Every detached
/// request ends with [`Detached::end`] or [`Detached::end_with`].
pub(in crate::server) struct Detached {
    finished: Finished,
    talker: Talker,
    guards: Guards,
    trail: Option<Box<Trail>>,
    /// Counts a watch that is answered from the cache.
    watching: Option<Watching>,
    /// Whether initial events are still to be sent.
    initial: bool,
    bytes: usize,
    next_request: Option<NextRequest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Ending {
    pub(in crate::server) why: &'static str,
    /// Whether the client was told that the stream ended. If so, another request may
    /// follow.
    pub(in crate::server) in_order: bool,
}

impl Ending {
    /// Makes the end of a stream whose client was not told about it.
    pub(in crate::server) fn broken(why: &'static str) -> Self {
        Self {
            why,
            in_order: false,
        }
    }
}

/// Takes the client's HTTP/1 connection or HTTP/2 stream. The head of the answer must
/// have been sent.
pub(in crate::server) fn detach(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
) -> (ClientStream, Detached) {
    let detached = Detached::new(exchange.request(), ctx);
    (exchange.detach(), detached)
}

/// Takes the bare connection of an HTTP/1 request that has been read. Fails for
/// HTTP/2, because there a stream is not a connection.
pub(in crate::server) fn detach_connection(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
) -> Result<(Box<Coalesced>, Detached), Failure> {
    if !exchange.is_http1() {
        return Err(Failure::internal("upgrade of a shared connection"));
    }
    let detached = Detached::new(exchange.request(), ctx);
    Ok((exchange.detach_connection()?, detached))
}

impl Detached {
    fn new(request: &request::Parts, ctx: &mut RequestContext) -> Self {
        let finished = Finished::last(request, ctx);
        ctx.reply.detached = true;
        Self {
            finished,
            talker: Talker::begun(request, ctx),
            guards: mem::take(&mut ctx.guards),
            trail: ctx.audit.take(),
            watching: None,
            initial: false,
            bytes: 0,
            next_request: ctx.next_request.take(),
        }
    }

    /// Marks the request as a watch that is answered from the cache. `has_begun`
    /// tells that no initial events are left to send.
    pub(in crate::server) fn watches(&mut self, has_begun: bool) {
        self.watching = Some(self.finished.watching());
        self.initial = !has_begun;
        if has_begun {
            self.release_seats();
        }
    }

    /// Counts a batch of events that was sent. `has_begun` tells that all initial
    /// events have been sent with it.
    pub(in crate::server) fn sent(&mut self, bytes: usize, events: usize, has_begun: bool) {
        self.bytes = self.bytes.saturating_add(bytes);
        let Some(watching) = &self.watching else {
            return;
        };
        watching.sent(bytes, events);
        if has_begun {
            self.begun();
        }
    }

    /// Notes that all initial events have been sent, even if there were none.
    pub(in crate::server) fn begun(&mut self) {
        if mem::take(&mut self.initial) {
            if let Some(watching) = &self.watching {
                watching.initial_events_sent();
            }
            self.release_seats();
        }
    }

    /// Counts bytes of events. The events themselves are counted with those of other
    /// watches.
    pub(in crate::server) fn sent_in_group(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Counts the events that were sent to a group of watches, to which this one
    /// belongs.
    pub(in crate::server) fn count(&self, tally: &Tally) {
        if let Some(watching) = &self.watching {
            watching.count(tally);
        }
    }

    /// Measures how long a batch was on its way that has been written. `arrived` is
    /// the moment at which its oldest event arrived.
    pub(in crate::server) fn delivered(&self, arrived: Option<Instant>) {
        if let (Some(watching), Some(arrived)) = (&self.watching, arrived) {
            watching.delivered(arrived);
        }
    }

    /// Counts bytes from upstream that are passed on.
    pub(in crate::server) fn passes(&mut self, data: &Bytes) {
        self.bytes = self.bytes.saturating_add(data.len());
        if let Some(trail) = &mut self.trail {
            trail.response_piece(data);
        }
    }

    /// Gives the seats back, because making the answer costs nothing any more.
    pub(in crate::server) fn release_seats(&mut self) {
        seats::give_back(&mut self.guards.in_flight);
    }

    /// Counts an answer that upstream broke off.
    pub(in crate::server) fn aborted(&self) {
        self.finished.aborted();
    }

    /// Records the end of the request, and gives back everything that it holds. The
    /// connection then goes on to its next request, or is closed.
    pub(in crate::server) async fn end_with(mut self, mut client: ClientStream, ending: Ending) {
        let may_go_on = ending.in_order && client.is_connection();
        match self.next_request.take().filter(|_| may_go_on) {
            Some(next) => {
                self.end(ending.why);
                client.serve_next(next).await;
            }
            None => {
                client.close().await;
                self.end(ending.why);
            }
        }
    }

    /// Does what [`Detached::end_with`] does, for a connection that is gone already.
    pub(in crate::server) fn end(mut self, why: &'static str) {
        if let Some(watching) = self.watching.take() {
            watching.ended(why);
        }
        self.finished.ended(why);
        self.talker.ended(self.bytes);
        self.finished.record(self.bytes);
        // The process may end as soon as no request is open. Therefore the last
        // audit event is made before the guards are dropped.
        drop(self.trail);
        drop(self.guards);
    }
}
