//! HTTP/2 connections: their requests, their deadlines and their end.
//!
//! pingora's own loop knows only of streams its handlers still hold. Cached
//! watches are held by tasks of ours (`detached.rs`), so here h2 is asked
//! whether streams are open. kube-apiserver ends such connections alike: those
//! without streams after `IdleTimeout`, and those of unauthenticated callers
//! after their first answer (`UnauthenticatedHTTP2DOSMitigation`).

use std::sync::Arc;
use std::time::Duration;

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
use pingora_proxy::Session;
use tokio::time::{Instant, sleep, timeout};

use super::deadlines::{Deadlines, Ended};
use super::frame_meter::Http2State;

/// How long a client may take to see GOAWAY and to say what it sent before. Go's
/// `goAwayTimeout`.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests that no server may accept, in a connection's life: pingora's
/// `MAX_MALFORMED_STREAMS_PER_CONN`, which its own loop alone counts.
const MALFORMED_REQUESTS: usize = 32;
/// Requests whose handlers have not ended, as a multiple of the streams that may
/// be open: only streams that are reset soon after they are opened make more
/// handlers than streams (CVE-2023-44487). Go queues four times as many.
const HANDLERS_PER_STREAM: usize = 4;
/// How often a connection is looked at: deadlines are kept to half of the shortest,
/// or to this. Twenty thousand connections wake two thousand times a second.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The least time between looks, so that no configuration makes it a busy loop.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(100);

/// The settings of HTTP/2 connections.
#[derive(Clone)]
pub(in crate::server) struct Http2Options {
    pub(in crate::server) h2: H2Options,
    pub(in crate::server) max_streams: u32,
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

/// Serves a connection until it ends. `stream` tells `state` what comes in.
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
    let mut connection = match timeout(deadlines.header, handshake).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(_)) => return Ended::ByClient,
        Err(_) => return Ended::HeaderTimeout,
    };
    let max_handlers = usize::try_from(options.max_streams)
        .map_or(usize::MAX, |n| n.saturating_mul(HANDLERS_PER_STREAM));
    // A clone for each handler that runs.
    let handlers = Arc::new(());
    let mut stop = shutdown.clone();
    let mut stopping = *stop.borrow();
    if stopping {
        connection.graceful_shutdown();
    }
    let look_every = deadlines
        .shortest()
        .checked_div(2)
        .unwrap_or_default()
        .clamp(LOOK_AT_MOST_EVERY, LOOK_EVERY);
    let look = sleep(look_every);
    tokio::pin!(look);
    let mut used = Instant::now();
    let mut accepted_since_look = false;
    let mut any_request = false;
    let mut malformed = 0usize;
    // Why and by when it ends, once GOAWAY is sent.
    let mut ending: Option<(Ended, Instant)> = None;
    loop {
        let event = tokio::select! {
                biased;
                _ = stop.changed(), if !stopping => Event::ShuttingDown,
                () = state.changed() => Event::StateChanged,
                () = &mut look => Event::Look,
                accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => {
                    Event::Accepted(accepted)
                }
        };
        match event {
            Event::Accepted(Ok(Some(H2Accept::Session(session)))) => {
                any_request = true;
                accepted_since_look = true;
                if ending.is_some_and(|(_, by)| Instant::now() >= by) {
                    // The client knows by GOAWAY that nothing more is served.
                    continue;
                }
                if Arc::strong_count(&handlers) > max_handlers {
                    return abort(connection, &state, Ended::Flood).await;
                }
                let (app, handler, shutdown) = (app.clone(), handlers.clone(), shutdown.clone());
                tokio::spawn(async move {
                    let session = ServerSession::new_http2(session);
                    app.process_new_http(session, &shutdown).await;
                    drop(handler);
                });
            }
            Event::Accepted(Ok(Some(H2Accept::Rejected))) => {
                malformed = malformed.saturating_add(1);
                if malformed >= MALFORMED_REQUESTS {
                    return abort(connection, &state, Ended::Flood).await;
                }
            }
            Event::Accepted(Ok(None) | Err(_)) => {
                return ending.map_or(Ended::ByClient, |(why, _)| why);
            }
            Event::ShuttingDown => {
                stopping = true;
                connection.graceful_shutdown();
            }
            Event::StateChanged if state.has_stopped_reading() => {
                return abort(connection, &state, Ended::Flood).await;
            }
            Event::StateChanged => {
                if state.is_asked_to_end() && ending.is_none() {
                    connection.graceful_shutdown();
                    let by = after(Instant::now(), GOAWAY_TIMEOUT);
                    ending = Some((Ended::Unauthenticated, by));
                    look.as_mut().reset(by);
                }
            }
            Event::Look => {
                let now = Instant::now();
                let open = connection.has_streams();
                if open || accepted_since_look {
                    used = now;
                }
                accepted_since_look = false;
                look.as_mut().reset(after(now, look_every));
                if state.unfinished_for(now.into_std()) >= deadlines.header {
                    return abort(connection, &state, Ended::HeaderTimeout).await;
                }
                let unused = now.saturating_duration_since(used);
                match ending {
                    Some((why, by)) if now >= by && !open => return why,
                    Some(_) => {}
                    None if !any_request && unused >= deadlines.header => {
                        return abort(connection, &state, Ended::HeaderTimeout).await;
                    }
                    None if unused >= deadlines.idle => {
                        connection.graceful_shutdown();
                        let by = after(now, GOAWAY_TIMEOUT);
                        ending = Some((Ended::Idle, by));
                        look.as_mut().reset(by);
                    }
                    None => {}
                }
            }
        }
    }
}

/// A time that no clock can show is now.
fn after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time).unwrap_or(now)
}

/// Ends the connection and all its streams, and says so if the client listens.
async fn abort(mut connection: H2<Stream, bytes::Bytes>, state: &Http2State, why: Ended) -> Ended {
    state.stop_reading();
    connection.abrupt_shutdown(match why {
        Ended::Flood => Reason::ENHANCE_YOUR_CALM,
        _ => Reason::NO_ERROR,
    });
    let said = std::future::poll_fn(|cx| connection.poll_closed(cx));
    // A client that reads nothing does not hear it.
    let _ = timeout(GOAWAY_TIMEOUT, said).await;
    why
}

/// The digest of their connection that requests see. It carries the connection's
/// state too, in the place that pingora has for what a proxy in front said.
fn digest(stream: &Stream, state: Arc<Http2State>) -> Arc<Digest> {
    let proxy = ResponseHeader::build(StatusCode::OK, None)
        .ok()
        .map(|header| Arc::new(ProxyDigest::new(Box::new(header), Some(Box::new(state)))));
    Arc::new(Digest {
        ssl_digest: stream.get_ssl_digest(),
        timing_digest: stream.get_timing_digest(),
        proxy_digest: proxy,
        socket_digest: stream.get_socket_digest(),
    })
}

/// Makes a request the last one of its HTTP/2 connection.
pub(in crate::server) fn end_after(session: &Session) {
    let state = session
        .digest()
        .and_then(|digest| digest.proxy_digest.as_ref())
        .and_then(|proxy| proxy.user_data.as_ref())
        .and_then(|data| data.downcast_ref::<Arc<Http2State>>());
    if let Some(state) = state {
        state.ask_to_end();
    }
}
