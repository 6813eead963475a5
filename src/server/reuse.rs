//! What comes after a request that left pingora: an HTTP/1 connection goes on
//! with the next request when a watch or a log has ended in order, as
//! kube-apiserver's does. pingora has let go of it by then.

use std::sync::Arc;

use futures::future::BoxFuture;
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::server::ShutdownWatch;

/// pingora's keep-alive timeout in seconds: how long a connection may idle
/// between requests.
pub(super) const IDLE_SECONDS: u64 = 60;

type GoOn = dyn FnOnce(Stream) -> BoxFuture<'static, ()> + Send + Sync;

/// Serves the rest of an HTTP/1 connection.
pub(super) struct NextRequest(Box<GoOn>);

impl NextRequest {
    pub(super) fn of<A>(app: &Arc<A>, shutdown: &ShutdownWatch) -> Self
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        let (app, shutdown) = (app.clone(), shutdown.clone());
        Self(Box::new(move |stream| {
            Box::pin(serve(app, stream, shutdown))
        }))
    }

    /// Reads and answers requests until the connection ends.
    pub(super) async fn go_on(self, stream: Stream) {
        (self.0)(stream).await;
    }
}

/// As pingora does with a connection that has just been accepted.
async fn serve<A>(app: Arc<A>, stream: Stream, shutdown: ShutdownWatch)
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let mut session = ServerSession::new_http1(stream);
    let stopping = *shutdown.borrow();
    session.set_keepalive((!stopping).then_some(IDLE_SECONDS));
    while let Some(reused) = app.process_new_http(session, &shutdown).await {
        let (stream, settings) = reused.consume();
        session = ServerSession::new_http1(stream);
        if let Some(settings) = settings {
            settings.apply_to_session(&mut session);
        }
    }
}
