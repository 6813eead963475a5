//! Reads the body of a request.

use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http::header::EXPECT;
use tokio::time::timeout;

use super::{Exchange, Failure};

impl Exchange<'_> {
    pub(in crate::server) fn has_body(&mut self) -> bool {
        !self.session.is_body_empty()
    }

    pub(in crate::server) fn is_body_read(&mut self) -> bool {
        self.session.is_body_done()
    }

    /// Keeps the pieces that are read from here on, so that the request can still be
    /// forwarded. pingora keeps at most 64 KiB.
    pub(in crate::server) fn keep_body(&mut self) {
        self.session.enable_retry_buffering();
    }

    /// Tells whether the kept pieces of the body are too many to be sent again.
    pub(in crate::server) fn has_lost_body(&self) -> bool {
        self.session.retry_buffer_truncated()
    }

    /// Reads a piece of the body. Returns `None` at its end.
    pub(in crate::server) async fn read_body(&mut self) -> Result<Option<Bytes>, Failure> {
        let read = self.session.read_request_body();
        read.await.map_err(Failure::by_client)
    }

    /// Lets the client be silent for any length of time.
    pub(in crate::server) fn wait_without_limit(&mut self) {
        self.session.set_read_timeout(None);
    }

    /// Bounds the time in which pingora reads the rest of a body that nobody needs.
    pub(in crate::server) fn drain_within(&mut self, limit: Duration) {
        self.session.set_total_drain_timeout(Some(limit));
    }

    /// Reads the rest of the body, which would otherwise be taken for the next
    /// request. Returns true if all of it was read.
    pub(in crate::server) async fn drain(&mut self, most: usize, within: Duration) -> bool {
        let session = self.session.as_mut();
        let read = async {
            let mut bytes = 0usize;
            while !session.is_body_done() {
                match session.read_request_body().await {
                    Ok(Some(piece)) if bytes < most => bytes = bytes.saturating_add(piece.len()),
                    Ok(None) => return true,
                    Ok(Some(_)) | Err(_) => return false,
                }
            }
            true
        };
        timeout(within, read).await.unwrap_or(false)
    }

    /// Tells whether the client sends its body only after a 100. HTTP/1.0 has no 100
    /// (RFC 9110, 10.1.1).
    pub(in crate::server) fn waits_for_100(&mut self) -> bool {
        let request = self.request();
        request.version == Version::HTTP_11
            && request.headers.get(EXPECT).is_some_and(|e| !e.is_empty())
            && self.has_body()
    }

    /// Sends a 100 to a client that waits for it. pingora takes every answer before
    /// the end of the body for the last one of its connection, even this one. So the
    /// keepalive setting is restored.
    pub(in crate::server) async fn tell_to_go_on(&mut self) -> Result<(), Failure> {
        if self.waits_for_100() {
            let keepalive = self.session.get_keepalive();
            let written = self.session.write_continue_response();
            written.await.map_err(Failure::by_client)?;
            self.session.set_keepalive(keepalive);
        }
        Ok(())
    }
}
