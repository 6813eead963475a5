//! A request that goes on in a task of its own: a watch, a log, a tunnel.
//!
//! A watch in pingora's request task takes 25 to 77 KB of futures. In a task of its
//! own it takes 6 to 40 KB. A tunnel also needs the bare stream. A dummy session
//! stays behind in pingora, which must not be asked for its request any more.

use std::io::Cursor;
use std::mem;
use std::time::Instant;

use apifront_watch_cache::watch::Tally;
use bytes::Bytes;
use http::request;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::{Error, ErrorType, Result};
use pingora_proxy::Session;

use crate::audit::Trail;
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

/// Takes the whole downstream session: an HTTP/1 connection or an HTTP/2 stream. The
/// head of the answer must have been sent.
pub(in crate::server) fn detach(
    session: &mut Session,
    ctx: &mut RequestContext,
) -> (ServerSession, Detached) {
    let detached = Detached::new(session.req_header(), ctx);
    (take_session(session), detached)
}

/// Takes the bare stream of an HTTP/1 connection whose request has been read. Fails
/// for HTTP/2, because there a stream is not a connection.
pub(in crate::server) fn detach_stream(
    session: &mut Session,
    ctx: &mut RequestContext,
) -> Result<(Stream, Detached)> {
    let shared = || Error::explain(ErrorType::InternalError, "upgrade of a shared connection");
    session.as_http1().ok_or_else(shared)?;
    let detached = Detached::new(session.req_header(), ctx);
    match take_session(session) {
        ServerSession::H1(v1) => Ok((opened(v1.into_inner()), detached)),
        ServerSession::H2(_) | ServerSession::Subrequest(_) | ServerSession::Custom(_) => {
            Err(shared())
        }
    }
}

/// Lets the reader of a connection have the bytes that the client sent after its
/// request.
fn opened(stream: Stream) -> Stream {
    match stream.into_any().downcast::<Coalesced>() {
        Ok(mut stream) => {
            stream.open();
            stream
        }
        // No listener makes another kind of stream.
        Err(_) => Box::new(Cursor::new(Vec::<u8>::new())),
    }
}

fn take_session(session: &mut Session) -> ServerSession {
    let dummy = ServerSession::new_http1(Box::new(Cursor::new(Vec::<u8>::new())));
    mem::replace(&mut *session.downstream_session, dummy)
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
    pub(in crate::server) async fn end_with(mut self, session: ServerSession, ending: Ending) {
        let next = self.next_request.take().filter(|_| ending.in_order);
        let (Some(next), true) = (next, matches!(session, ServerSession::H1(_))) else {
            let mut session = session;
            session.shutdown().await;
            self.end(ending.why);
            return;
        };
        self.end(ending.why);
        // The connection cannot be reused while the client still sends a body.
        if let Ok(Some(reusable)) = session.finish().await {
            let (stream, _) = reusable.into_parts();
            next.go_on(stream).await;
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
