//! HTTP/1 connections, with a limit on the time a request header may take.
//!
//! pingora bounds each read, not the header as a whole: a client that sends a
//! byte now and then ("slowloris") could hold a connection for hours. Here the
//! time from the start of a request, the idle time before it included, to the
//! end of its header is bounded. `http2.rs` has the other protocol's deadlines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::server::ShutdownWatch;

use super::listen::Deadlines;

/// Tells that the header has been read. Travels with the connection to
/// `ProxyHttp::on_connection_reuse`.
pub(super) struct HeaderRead(Arc<AtomicBool>);

impl HeaderRead {
    pub(super) fn done(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Serves the requests of a connection, one after the other. False when a header
/// did not come in time.
pub(super) async fn serve<A>(
    app: &Arc<A>,
    stream: Stream,
    deadlines: Deadlines,
    shutdown: &ShutdownWatch,
) -> bool
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let mut session = ServerSession::new_http1(stream);
    // 0 seconds would be no limit to pingora.
    let idle = deadlines.idle.as_secs().max(1);
    let keepalive = (!*shutdown.borrow()).then_some(idle);
    session.set_keepalive(keepalive);
    // Nobody connects to idle: the first request is expected at once.
    let mut allowed = deadlines.header;
    loop {
        let read = Arc::new(AtomicBool::new(false));
        session.set_connection_user_context(Some(Box::new(HeaderRead(read.clone()))));
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
        allowed = deadlines.idle + deadlines.header;
    }
}
