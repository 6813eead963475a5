//! HTTP/1 connections, with a limit on the time a request header may take.
//!
//! pingora bounds each read, not the header as a whole: a client that sends a
//! byte now and then ("slowloris") could hold a connection for hours. Here the
//! time from the start of a request, the idle time before it included, to the
//! end of its header is bounded. `http2.rs` has the other protocol's deadlines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::server::ShutdownWatch;

use super::listen::Deadlines;
use super::next_request::NextRequest;

/// Tells that the header has been read. Travels with the connection to
/// `ProxyHttp::on_connection_reuse`.
pub(in crate::server) struct HeaderRead {
    read: Arc<AtomicBool>,
    next: NextRequest,
}

impl HeaderRead {
    pub(in crate::server) fn done(self) -> NextRequest {
        self.read.store(true, Ordering::Release);
        self.next
    }
}

/// Serves the requests of a connection, one after the other. False when a header
/// did not come in time.
pub(in crate::server) async fn serve<A>(
    app: &Arc<A>,
    stream: Stream,
    deadlines: Deadlines,
    shutdown: &ShutdownWatch,
) -> bool
where
    A: HttpServerApp + Send + Sync + 'static,
{
    // Nobody connects to idle: the first request is expected at once.
    serve_first_within(app, stream, deadlines, shutdown, deadlines.header).await
}

/// As [`serve`], for a connection that has had requests already.
pub(in crate::server) async fn go_on<A>(
    app: &Arc<A>,
    stream: Stream,
    deadlines: Deadlines,
    shutdown: &ShutdownWatch,
) -> bool
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let allowed = deadlines.idle_and_header();
    serve_first_within(app, stream, deadlines, shutdown, allowed).await
}

async fn serve_first_within<A>(
    app: &Arc<A>,
    stream: Stream,
    deadlines: Deadlines,
    shutdown: &ShutdownWatch,
    mut allowed: Duration,
) -> bool
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let mut session = ServerSession::new_http1(stream);
    // 0 seconds would be no limit to pingora.
    let idle = deadlines.idle.as_secs().max(1);
    let keepalive = (!*shutdown.borrow()).then_some(idle);
    session.set_keepalive(keepalive);
    loop {
        let read = Arc::new(AtomicBool::new(false));
        session.set_connection_user_context(Some(Box::new(HeaderRead {
            read: read.clone(),
            next: NextRequest::of(app, deadlines, shutdown),
        })));
        let mut request = app.process_new_http(session, shutdown);
        // Most requests end before it; waking anybody when the header has been
        // read would cost each of them more than this does a few.
        let reused = tokio::select! {
            biased;
            reused = &mut request => reused,
            () = tokio::time::sleep(allowed) => {
                if !read.load(Ordering::Acquire) {
                    return false;
                }
                request.await
            }
        };
        let Some((stream, settings)) = reused.map(|reused| reused.consume()) else {
            return true;
        };
        session = ServerSession::new_http1(stream);
        if let Some(settings) = settings {
            settings.apply_to_session(&mut session);
        }
        allowed = deadlines.idle_and_header();
    }
}
