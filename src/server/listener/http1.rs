//! HTTP/1 connections, which serve one request after the other.
//!
//! A client that sends a byte now and then ("slowloris") could hold a connection for
//! hours. So there is a bound on the time from the start of a request, including the
//! idle time before it, to the end of its head. `http2.rs` has the deadlines of
//! HTTP/2.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::server::ShutdownWatch;
use tokio::time::timeout;

use super::coalesce::Coalesced;
use super::connection_deadlines::{Deadlines, Ended};
use super::head::{self, Head, HeadLimits, HeadRefusal, Rest};

/// The app that answers the requests of a connection, and the connection's settings.
pub(in crate::server) struct Http1<A> {
    pub(in crate::server) app: Arc<A>,
    pub(in crate::server) deadlines: Deadlines,
    pub(in crate::server) limits: HeadLimits,
    pub(in crate::server) client: Option<IpAddr>,
    pub(in crate::server) shutdown: ShutdownWatch,
}

/// The facts about a request that pingora does not know. They travel with the
/// connection to `ProxyHttp::on_connection_reuse`.
pub(in crate::server) struct HeadRead {
    pub(in crate::server) rest: Rest,
    pub(in crate::server) next: NextRequest,
}

/// Serves the rest of an HTTP/1 connection after a request that left pingora. When a
/// watch or a log has ended in order, the connection goes on with the next request,
/// as with kube-apiserver. By then, pingora no longer holds the connection.
pub(in crate::server) struct NextRequest(Arc<dyn ServeRest>);

trait ServeRest: Send + Sync {
    fn serve_rest(self: Arc<Self>, stream: Stream) -> BoxFuture<'static, ()>;
}

impl NextRequest {
    pub(in crate::server) async fn go_on(self, stream: Stream) {
        self.0.serve_rest(stream).await;
    }
}

/// A connection between two requests.
struct Idle {
    stream: Box<Coalesced>,
    /// How long the client may take for the next head.
    allowed: Duration,
    after_post: bool,
}

impl<A: HttpServerApp + Send + Sync + 'static> Http1<A> {
    pub(in crate::server) async fn serve(self: &Arc<Self>, stream: Box<Coalesced>) -> Ended {
        self.serve_from(Idle {
            stream,
            // A client connects in order to ask something, so its first request is
            // expected at once.
            allowed: self.deadlines.header,
            after_post: false,
        })
        .await
    }

    async fn serve_from(self: &Arc<Self>, mut idle: Idle) -> Ended {
        loop {
            let read = tokio::select! {
                biased;
                read = timeout(idle.allowed, self.read_head(&mut idle)) => read,
                () = self.stopped() => return Ended::ByClient,
            };
            let head = match read {
                Ok(Ok(Some(head))) => head,
                Ok(Ok(None)) => return Ended::ByClient,
                Ok(Err(refusal)) => {
                    refusal.answer(idle.stream).await;
                    return Ended::Refused(refusal);
                }
                Err(_) => return Ended::HeaderTimeout,
            };
            let after_post = head.is_post;
            let Some(stream) = self.answer(idle.stream, head).await else {
                return Ended::ByClient;
            };
            idle = Idle {
                stream,
                allowed: self.deadlines.idle_and_header(),
                after_post,
            };
        }
    }

    async fn read_head(&self, idle: &mut Idle) -> Result<Option<Head>, HeadRefusal> {
        let read = idle.stream.end_request();
        let (stream, after_post) = (&mut idle.stream, idle.after_post);
        head::read(stream, read, after_post, &self.limits, self.client).await
    }

    /// Lets pingora answer the request. Returns the connection if another
    /// request may follow.
    async fn answer(
        self: &Arc<Self>,
        mut stream: Box<Coalesced>,
        head: Head,
    ) -> Option<Box<Coalesced>> {
        stream.begin_request(head.body, head.next);
        let mut session = ServerSession::new_http1(stream);
        // 0 would mean no limit to pingora.
        let idle = self.deadlines.idle.as_secs().max(1);
        let keepalive = (!*self.shutdown.borrow()).then_some(idle);
        session.set_keepalive(keepalive);
        session.set_pipelined_prefix(head.for_pingora);
        session.set_connection_user_context(Some(Box::new(HeadRead {
            rest: head.rest,
            next: NextRequest(self.clone()),
        })));
        let reused = self.app.process_new_http(session, &self.shutdown).await;
        reused.and_then(|reused| coalesced(reused.consume().0))
    }

    /// Resolves when the process stops, because connections between two requests are
    /// closed then.
    async fn stopped(&self) {
        let mut shutdown = self.shutdown.clone();
        if shutdown.wait_for(|stop| *stop).await.is_err() {
            std::future::pending().await
        }
    }
}

impl<A: HttpServerApp + Send + Sync + 'static> ServeRest for Http1<A> {
    fn serve_rest(self: Arc<Self>, stream: Stream) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(stream) = coalesced(stream) else {
                return;
            };
            let idle = Idle {
                stream,
                allowed: self.deadlines.idle_and_header(),
                after_post: false,
            };
            let ended = self.serve_from(idle).await;
            if let Some(reason) = ended.reason() {
                tracing::debug!(reason, "closed a connection");
            }
        })
    }
}

fn coalesced(stream: Stream) -> Option<Box<Coalesced>> {
    stream.into_any().downcast().ok()
}
