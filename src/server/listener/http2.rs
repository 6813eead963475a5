//! HTTP/2 connections: their requests, their deadlines and their end.
//!
//! pingora's own loop knows only the streams that its handlers still hold. Here
//! tasks of apifront hold the cached watches (`detached.rs`), so h2 is asked whether
//! streams are open. kube-apiserver ends the same connections: those without streams
//! after `IdleTimeout`, and those of unauthenticated callers after their first
//! answer (`UnauthenticatedHTTP2DOSMitigation`).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::Connection as H2;
use http::StatusCode;
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{self, H2Accept, H2Options, HttpSession};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::{Digest, Stream};
use pingora_core::server::ShutdownWatch;
use pingora_http::ResponseHeader;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::connection_deadlines::{Deadlines, Ended};
use super::frame_meter::Http2State;

/// How long requests are still accepted after GOAWAY. The client may have sent them
/// before it saw the GOAWAY. Go has the same `goAwayTimeout`.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection is ended after this number of malformed requests. pingora has the
/// same number in `MAX_MALFORMED_STREAMS_PER_CONN`, but only its own loop counts
/// them.
const MALFORMED_REQUESTS: usize = 32;
/// The most running handlers, as a multiple of the streams that may be open. There
/// are more handlers than streams only if streams are reset soon after they are
/// opened (CVE-2023-44487). Go queues four times as many, too.
const HANDLERS_PER_STREAM: usize = 4;

/// The requests that a connection may begin in one turn. Their handlers wait behind
/// all tasks that are ready, and handlers of other connections wait behind them. So
/// a client that sends hundreds of requests at once must give others a turn.
const REQUESTS_PER_TURN: usize = 16;
/// The longest time between two checks of a connection's deadlines. A deadline that
/// is shorter is checked twice before it ends. At this interval, twenty thousand
/// connections wake two thousand times a second.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The shortest time between checks, so that no configuration makes a busy loop.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(in crate::server) struct Http2Options {
    pub(in crate::server) h2: H2Options,
    pub(in crate::server) max_streams: u32,
    /// The part of requests after which GOAWAY is sent.
    pub(in crate::server) goaway_chance: f64,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for every request"
)]
enum Event {
    ShuttingDown,
    StateChanged,
    Look,
    Accepted(pingora_core::Result<Option<H2Accept>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No stream is open any more.
    Closed(Ended),
    /// All open streams are cut off.
    Aborted(Ended),
}

/// Serves a connection until it ends. `stream` reports to `state` which frames come
/// in.
pub(in crate::server) async fn serve<A>(
    app: &Arc<A>,
    stream: Stream,
    state: Arc<Http2State>,
    options: &Http2Options,
    deadlines: Deadlines,
    shutdown: &ShutdownWatch,
) -> Ended
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let digest = digest(&stream, state.clone());
    let handshake = server::handshake(stream, Some(options.h2.clone()));
    let h2 = match timeout(deadlines.header, handshake).await {
        Ok(Ok(h2)) => h2,
        Ok(Err(_)) => return Ended::ByClient,
        Err(_) => return Ended::HeaderTimeout,
    };
    let handlers = Handlers::new(app.clone(), shutdown.clone(), options.max_streams);
    let mut connection = Connection::new(h2, state, deadlines, options.goaway_chance);
    let mut stop = shutdown.clone();
    let mut stopping = *stop.borrow();
    if stopping {
        connection.h2.graceful_shutdown();
    }
    loop {
        let accepted = HttpSession::from_h2_conn(&mut connection.h2, digest.clone());
        // Without a name for it, the connection keeps no room for the event.
        let end = match tokio::select! {
                biased;
                _ = stop.changed(), if !stopping => Event::ShuttingDown,
                () = connection.state.changed() => Event::StateChanged,
                () = &mut connection.look => Event::Look,
                accepted = accepted => Event::Accepted(accepted),
        } {
            Event::Accepted(Ok(Some(H2Accept::Session(session)))) => {
                connection.accept(session, &handlers)
            }
            Event::Accepted(Ok(Some(H2Accept::Rejected))) => connection.count_malformed(),
            Event::Accepted(Ok(None) | Err(_)) => Some(connection.closed_by_client()),
            Event::ShuttingDown => {
                stopping = true;
                connection.h2.graceful_shutdown();
                None
            }
            Event::StateChanged => connection.follow_state(),
            Event::Look => connection.check_deadlines(Instant::now()),
        };
        match end {
            None if connection.ends_turn() => yield_now().await,
            None => {}
            Some(End::Closed(why)) => return why,
            Some(End::Aborted(why)) => return connection.abort(why).await,
        }
    }
}

/// An open connection, with the values that decide when it ends.
struct Connection {
    h2: H2<Stream, Bytes>,
    state: Arc<Http2State>,
    deadlines: Deadlines,
    /// Fires when the deadlines must be checked.
    look: Pin<Box<Sleep>>,
    look_every: Duration,
    last_used: Instant,
    accepted_since_look: bool,
    accepted_this_turn: usize,
    any_request: bool,
    malformed: usize,
    goaway_chance: f64,
    /// Set once GOAWAY is sent: why the connection ends, and by when.
    ending: Option<(Ended, Instant)>,
}

impl Connection {
    fn new(
        h2: H2<Stream, Bytes>,
        state: Arc<Http2State>,
        deadlines: Deadlines,
        goaway_chance: f64,
    ) -> Self {
        let look_every = deadlines
            .shortest()
            .checked_div(2)
            .unwrap_or_default()
            .clamp(LOOK_AT_MOST_EVERY, LOOK_EVERY);
        Self {
            h2,
            state,
            deadlines,
            look: Box::pin(sleep(look_every)),
            look_every,
            last_used: Instant::now(),
            accepted_since_look: false,
            accepted_this_turn: 0,
            any_request: false,
            malformed: 0,
            goaway_chance,
            ending: None,
        }
    }

    fn accept<A>(&mut self, session: HttpSession, handlers: &Handlers<A>) -> Option<End>
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        self.any_request = true;
        self.accepted_since_look = true;
        self.accepted_this_turn = self.accepted_this_turn.saturating_add(1);
        if self.ending.is_some_and(|(_, by)| Instant::now() >= by) {
            // GOAWAY has told the client that nothing more is served.
            return None;
        }
        if handlers.are_too_many() {
            return Some(End::Aborted(Ended::Flood));
        }
        handlers.start(session);
        if self.goaway_chance > 0.0
            && self.ending.is_none()
            && rand::random_bool(self.goaway_chance)
        {
            self.go_away(Ended::GoAwayChance, Instant::now());
        }
        None
    }

    /// Tells whether other tasks get a turn before this one goes on.
    fn ends_turn(&mut self) -> bool {
        let ends = self.accepted_this_turn >= REQUESTS_PER_TURN;
        if ends {
            self.accepted_this_turn = 0;
        }
        ends
    }

    fn count_malformed(&mut self) -> Option<End> {
        self.malformed = self.malformed.saturating_add(1);
        (self.malformed >= MALFORMED_REQUESTS).then_some(End::Aborted(Ended::Flood))
    }

    fn closed_by_client(&self) -> End {
        End::Closed(self.ending.map_or(Ended::ByClient, |(why, _)| why))
    }

    /// Ends the connection if its frames, or the answer to a request, ask for that.
    fn follow_state(&mut self) -> Option<End> {
        if self.state.has_stopped_reading() {
            return Some(End::Aborted(Ended::Flood));
        }
        if self.state.is_asked_to_end() && self.ending.is_none() {
            self.go_away(Ended::Unauthenticated, Instant::now());
        }
        None
    }

    fn check_deadlines(&mut self, now: Instant) -> Option<End> {
        let open = self.h2.has_streams();
        if open || self.accepted_since_look {
            self.last_used = now;
        }
        self.accepted_since_look = false;
        if !open {
            self.state.release();
        }
        self.look.as_mut().reset(after(now, self.look_every));
        if self.state.unfinished_for(now.into_std()) >= self.deadlines.header {
            return Some(End::Aborted(Ended::HeaderTimeout));
        }
        let unused = now.saturating_duration_since(self.last_used);
        match self.ending {
            Some((why, by)) if now >= by && !open => Some(End::Closed(why)),
            Some(_) => None,
            None if !self.any_request && unused >= self.deadlines.header => {
                Some(End::Aborted(Ended::HeaderTimeout))
            }
            None if unused >= self.deadlines.idle => {
                self.go_away(Ended::Idle, now);
                None
            }
            None => None,
        }
    }

    /// Sends GOAWAY, and checks again when the client has had the time to read it.
    fn go_away(&mut self, why: Ended, now: Instant) {
        self.h2.graceful_shutdown();
        let by = after(now, GOAWAY_TIMEOUT);
        self.ending = Some((why, by));
        self.look.as_mut().reset(by);
    }

    /// Ends the connection and all its streams, and tells the client if it reads.
    async fn abort(mut self, why: Ended) -> Ended {
        self.state.stop_reading();
        self.h2.abrupt_shutdown(match why {
            Ended::Flood => Reason::ENHANCE_YOUR_CALM,
            _ => Reason::NO_ERROR,
        });
        let told = std::future::poll_fn(|cx| self.h2.poll_closed(cx));
        // A client that reads nothing is not told.
        let _ = timeout(GOAWAY_TIMEOUT, told).await;
        why
    }
}

struct Handlers<A> {
    app: Arc<A>,
    shutdown: ShutdownWatch,
    /// Each handler that runs holds a clone.
    running: Arc<()>,
    most: usize,
}

impl<A: HttpServerApp + Send + Sync + 'static> Handlers<A> {
    fn new(app: Arc<A>, shutdown: ShutdownWatch, max_streams: u32) -> Self {
        Self {
            app,
            shutdown,
            running: Arc::new(()),
            most: usize::try_from(max_streams)
                .map_or(usize::MAX, |n| n.saturating_mul(HANDLERS_PER_STREAM)),
        }
    }

    fn are_too_many(&self) -> bool {
        Arc::strong_count(&self.running) > self.most
    }

    fn start(&self, session: HttpSession) {
        let (app, shutdown) = (self.app.clone(), self.shutdown.clone());
        let running = self.running.clone();
        tokio::spawn(async move {
            let session = ServerSession::new_http2(session);
            app.process_new_http(session, &shutdown).await;
            drop(running);
        });
    }
}

/// Adds `time` to `now`. Returns `now` if the sum is out of the clock's range.
fn after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time).unwrap_or(now)
}

/// Returns the connection's digest, which its requests see. It also carries the
/// connection's state, in the field that pingora has for the answer of a proxy in
/// front.
fn digest(stream: &Stream, state: Arc<Http2State>) -> Arc<Digest> {
    let proxy = ResponseHeader::build_no_case(StatusCode::OK, Some(0))
        .ok()
        .map(|header| Arc::new(ProxyDigest::new(Box::new(header), Some(Box::new(state)))));
    Arc::new(Digest {
        ssl_digest: stream.get_ssl_digest(),
        timing_digest: stream.get_timing_digest(),
        proxy_digest: proxy,
        socket_digest: stream.get_socket_digest(),
    })
}

/// Returns the state of the HTTP/2 connection that a request came on.
pub(in crate::server) fn state(digest: &Digest) -> Option<&Arc<Http2State>> {
    let proxy = digest.proxy_digest.as_ref()?;
    proxy.user_data.as_ref()?.downcast_ref()
}
