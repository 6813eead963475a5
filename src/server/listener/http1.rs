//! HTTP/1 connections, with a limit on the time a request header may take.
//!
//! pingora bounds each read, not the header as a whole, so a client that sends
//! a byte now and then ("slowloris") could hold a connection for hours. Here
//! the time from the start of a request, including the idle time before it, to
//! the end of its header is bounded. `http2.rs` has the deadlines of HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::server::ShutdownWatch;

use super::deadlines::Deadlines;

/// The app that answers the requests of a connection, and the settings of the
/// connection.
pub(in crate::server) struct Http1<A> {
    pub(in crate::server) app: Arc<A>,
    pub(in crate::server) deadlines: Deadlines,
    pub(in crate::server) shutdown: ShutdownWatch,
}

/// Signals that the header has been read. The value travels with the connection
/// to `ProxyHttp::on_connection_reuse`.
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

type ServeRest = dyn FnOnce(Stream) -> BoxFuture<'static, ()> + Send + Sync;

/// Serves the rest of an HTTP/1 connection after a request that left pingora.
/// When a watch or a log has ended in order, the connection goes on with the
/// next request, as it does with kube-apiserver. pingora no longer holds the
/// connection by then.
pub(in crate::server) struct NextRequest(Box<ServeRest>);

impl NextRequest {
    /// Reads and answers requests until the connection ends.
    pub(in crate::server) async fn go_on(self, stream: Stream) {
        (self.0)(stream).await;
    }
}

impl<A: HttpServerApp + Send + Sync + 'static> Http1<A> {
    /// Serves the requests of a connection, one after the other. Returns false
    /// if a header did not come in time.
    pub(in crate::server) async fn serve(&self, stream: Stream) -> bool {
        // A client connects to ask something, so its first request is expected
        // at once.
        self.serve_first_within(stream, self.deadlines.header).await
    }

    fn next_request(&self) -> NextRequest {
        let rest = Self {
            app: self.app.clone(),
            deadlines: self.deadlines,
            shutdown: self.shutdown.clone(),
        };
        NextRequest(Box::new(move |stream| {
            Box::pin(async move {
                let allowed = rest.deadlines.idle_and_header();
                if !rest.serve_first_within(stream, allowed).await {
                    tracing::debug!("closed a connection whose request header took too long");
                }
            })
        }))
    }

    async fn serve_first_within(&self, stream: Stream, mut allowed: Duration) -> bool {
        let mut session = ServerSession::new_http1(stream);
        // pingora would take 0 seconds as no limit.
        let idle = self.deadlines.idle.as_secs().max(1);
        let keepalive = (!*self.shutdown.borrow()).then_some(idle);
        session.set_keepalive(keepalive);
        loop {
            let read = Arc::new(AtomicBool::new(false));
            session.set_connection_user_context(Some(Box::new(HeaderRead {
                read: read.clone(),
                next: self.next_request(),
            })));
            let mut request = self.app.process_new_http(session, &self.shutdown);
            // Most requests end before the deadline. Waking a task when each
            // header has been read would cost each request more than the
            // deadline costs the few requests that reach it.
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
            allowed = self.deadlines.idle_and_header();
        }
    }
}
