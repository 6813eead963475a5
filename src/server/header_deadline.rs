//! A limit on the time a request header may take.
//!
//! pingora bounds each read, not the header as a whole: a client that sends a
//! byte now and then ("slowloris") could hold a connection for hours. This
//! wrapper bounds the time from the start of an HTTP/1 request, the idle time
//! before it included, to the end of its header. HTTP/2 headers arrive whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::H2Options;
use pingora_core::server::ShutdownWatch;

use super::reuse::{IDLE_SECONDS, NextRequest};

/// pingora's keep-alive timeout: how long a connection may idle between
/// requests, which comes before the header's own time.
const IDLE: Duration = Duration::from_secs(IDLE_SECONDS);

/// Tells that the header has been read. Travels with the connection to
/// `ProxyHttp::on_connection_reuse`.
pub(super) struct HeaderRead {
    read: Arc<AtomicBool>,
    next: NextRequest,
}

impl HeaderRead {
    pub(super) fn done(self) -> NextRequest {
        self.read.store(true, Ordering::Release);
        self.next
    }
}

pub(super) struct HeaderDeadline<A> {
    inner: Arc<A>,
    header_timeout: Duration,
    h2_options: H2Options,
    server_options: HttpServerOptions,
}

impl<A> HeaderDeadline<A> {
    pub(super) fn new(
        inner: A,
        header_timeout: Duration,
        h2_options: H2Options,
        server_options: HttpServerOptions,
    ) -> Self {
        Self {
            inner: Arc::new(inner),
            header_timeout,
            h2_options,
            server_options,
        }
    }
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> HttpServerApp for HeaderDeadline<A> {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        if session.is_http2() {
            return self.inner.process_new_http(session, shutdown).await;
        }
        let read = Arc::new(AtomicBool::new(false));
        session.set_connection_user_context(Some(Box::new(HeaderRead {
            read: read.clone(),
            next: NextRequest::of(self, shutdown),
        })));
        let mut request = self.inner.process_new_http(session, shutdown);
        // Most requests end before it; waking anybody when the header has been
        // read would cost each of them more than this does a few.
        tokio::select! {
            biased;
            reused = &mut request => return reused,
            () = tokio::time::sleep(IDLE + self.header_timeout) => {}
        }
        if !read.load(Ordering::Acquire) {
            tracing::debug!("closed a connection whose request header took too long");
            return None;
        }
        request.await
    }

    fn h2_options(&self) -> Option<H2Options> {
        Some(self.h2_options.clone())
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.server_options)
    }

    async fn http_cleanup(&self) {
        self.inner.http_cleanup().await;
    }
}
