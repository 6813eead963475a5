//! Writes an answer.

use std::time::Duration;

use bytes::Bytes;
use http::response;
use pingora_core::protocols::http::ServerSession;

use super::{Exchange, Failure, wire_head};

impl Exchange<'_> {
    /// Bounds the time in which the client takes each piece.
    pub(in crate::server) fn set_write_timeout(&mut self, limit: Duration) {
        self.session.set_write_timeout(Some(limit));
    }

    /// Writes the head of an answer. `is_all` tells that no body follows.
    pub(in crate::server) async fn write_head(
        &mut self,
        head: response::Parts,
        is_all: bool,
    ) -> Result<(), Failure> {
        let header = Box::new(wire_head::for_client(head, self.request().version)?);
        let written = self.session.write_response_header(header, is_all);
        written.await.map_err(Failure::by_client)
    }

    /// Writes the head of an answer that has no body whatever its fields say. In
    /// HTTP/2 the end must come with the head: later, it would contradict the
    /// Content-Length of a 304, which is that of a document that the answer does not
    /// hold. pingora's own method does not pass the end on.
    pub(in crate::server) async fn write_head_without_body(
        &mut self,
        head: response::Parts,
    ) -> Result<(), Failure> {
        let version = self.request().version;
        match &mut *self.session.downstream_session {
            ServerSession::H2(stream) => {
                let header = Box::new(wire_head::for_client(head, version)?);
                let written = stream.write_response_header(header, true);
                written.map_err(Failure::by_client)
            }
            ServerSession::H1(_) | ServerSession::Subrequest(_) | ServerSession::Custom(_) => {
                self.write_head(head, false).await
            }
        }
    }

    /// Writes a piece of the body. `is_last` tells that no more follows.
    pub(in crate::server) async fn write_body(
        &mut self,
        piece: Bytes,
        is_last: bool,
    ) -> Result<(), Failure> {
        let written = self.session.write_response_body(Some(piece), is_last);
        written.await.map_err(Failure::by_client)
    }

    /// Ends an answer whose pieces have been written.
    pub(in crate::server) async fn end_body(&mut self) -> Result<(), Failure> {
        let written = self.session.write_response_body(None, true);
        written.await.map_err(Failure::by_client)
    }

    /// Tells whether a head was written, be it only a 100.
    pub(in crate::server) fn has_begun(&self) -> bool {
        self.session.response_written().is_some()
    }

    /// Tells whether the client has an answer. A 100 does not count.
    pub(in crate::server) fn is_answered(&self) -> bool {
        let written = self.session.response_written();
        written.is_some_and(|header| !header.status.is_informational())
    }

    pub(in crate::server) fn body_bytes_sent(&self) -> usize {
        self.session.body_bytes_sent()
    }
}
