//! Detects clients that went away before their answer was ready.

use pingora_core::{Error, ErrorType};
use pingora_proxy::Session;

/// Returns the error for a request whose client has gone, or does not wait for
/// answers.
pub(in crate::server) fn error() -> Box<Error> {
    Error::explain(ErrorType::ConnectionClosed, "the client went away").into_down()
}

/// Resolves when no client waits for the answer any more. While an HTTP/1 client
/// still has to send its body, its end is not noticed.
pub(in crate::server) async fn wait(session: &mut Session) {
    let session = session.as_mut();
    let has_body = !session.is_body_empty();
    if session.as_http1().is_none() {
        if let Some(closed) = session.watch_h2_stream_close() {
            // Why the stream closed does not matter.
            let _ = closed.await;
            return;
        }
    } else if !has_body {
        let _ = session.read_body_or_idle(true).await;
        return;
    }
    std::future::pending().await
}
