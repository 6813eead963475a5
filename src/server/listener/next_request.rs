//! What comes after a request that left pingora: an HTTP/1 connection goes on
//! with the next request when a watch or a log has ended in order, as
//! kube-apiserver's does. pingora has let go of it by then.

use std::sync::Arc;

use futures::future::BoxFuture;
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Stream;
use pingora_core::server::ShutdownWatch;

use super::http1;
use super::listen::Deadlines;

type GoOn = dyn FnOnce(Stream) -> BoxFuture<'static, ()> + Send + Sync;

/// Serves the rest of an HTTP/1 connection.
pub(in crate::server) struct NextRequest(Box<GoOn>);

impl NextRequest {
    pub(in crate::server) fn of<A>(
        app: &Arc<A>,
        deadlines: Deadlines,
        shutdown: &ShutdownWatch,
    ) -> Self
    where
        A: HttpServerApp + Send + Sync + 'static,
    {
        let (app, shutdown) = (app.clone(), shutdown.clone());
        Self(Box::new(move |stream| {
            Box::pin(async move {
                let in_time = http1::go_on(&app, stream, deadlines, &shutdown).await;
                if !in_time {
                    tracing::debug!("closed a connection whose request header took too long");
                }
            })
        }))
    }

    /// Reads and answers requests until the connection ends.
    pub(in crate::server) async fn go_on(self, stream: Stream) {
        (self.0)(stream).await;
    }
}
