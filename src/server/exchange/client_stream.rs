//! The client's side of an exchange that pingora no longer holds.

use bytes::Bytes;
use h2::SendStream;
use pingora_core::protocols::http::ServerSession;

use super::Failure;
use crate::server::listener::http1::NextRequest;

/// An HTTP/1 connection or an HTTP/2 stream, whose answer has begun.
pub(in crate::server) struct ClientStream(ServerSession);

impl ClientStream {
    pub(super) fn new(session: ServerSession) -> Self {
        Self(session)
    }

    /// Tells whether the client has the connection for itself, so that another
    /// request may follow on it.
    pub(in crate::server) fn is_connection(&self) -> bool {
        matches!(self.0, ServerSession::H1(_))
    }

    /// Takes the writing half of an HTTP/2 stream. The rest of pingora's session,
    /// such as the request's headers, is not needed any more.
    pub(in crate::server) fn take_http2_writer(&mut self) -> Option<SendStream<Bytes>> {
        match &mut self.0 {
            ServerSession::H2(session) => session.take_response_body_writer(),
            ServerSession::H1(_) | ServerSession::Subrequest(_) | ServerSession::Custom(_) => None,
        }
    }

    pub(in crate::server) async fn write(&mut self, piece: Bytes) -> Result<(), Failure> {
        let written = self.0.write_response_body(piece, false);
        written.await.map_err(Failure::by_client)
    }

    /// Ends the answer in order.
    pub(in crate::server) async fn end(&mut self) -> Result<(), Failure> {
        let written = self.0.write_response_body(Bytes::new(), true);
        written.await.map_err(Failure::by_client)
    }

    /// Resolves when the client hangs up, or sends what nobody expects. It is
    /// cancel-safe.
    pub(in crate::server) async fn gone(&mut self) {
        let _ = self.0.read_body_or_idle(true).await;
    }

    /// Closes the connection or resets the stream.
    pub(in crate::server) async fn close(&mut self) {
        self.0.shutdown().await;
    }

    /// Lets the connection serve its next request. It is closed if the client still
    /// sends a body.
    pub(in crate::server) async fn serve_next(self, next: NextRequest) {
        // The end of this request has its own box, so that those that follow take no
        // memory for it.
        let finished = Box::pin(self.0.finish()).await;
        if let Ok(Some(reusable)) = finished {
            let (stream, _) = reusable.into_parts();
            next.go_on(stream).await;
        }
    }
}
