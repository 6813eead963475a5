//! Passes on the body of a request that does not go through pingora, before and
//! while its answer comes.

use std::convert::Infallible;

use apifront_upstream::request_body::{BodySender, RequestBody};
use bytes::Bytes;
use pingora_core::Result;
use pingora_proxy::Session;
use tokio::time::timeout;

use crate::audit::Trail;
use crate::server::listener::{client_gone, slow_client};
use crate::server::reply::send::DRAIN_WITHIN;

pub(in crate::server) struct Upload {
    /// `None` once upstream has the whole body, or takes no more of it.
    upstream: Option<BodySender>,
    /// A piece that upstream has not taken yet.
    waiting: Option<Bytes>,
    /// Whether the whole body has been read.
    read: bool,
    /// Whether upstream refused a piece.
    refused: bool,
}

impl Upload {
    /// Begins to pass on the body of a request, if there is one. Sends a 100 to a
    /// client that waits for it before it sends its body, because upstream's own 100
    /// does not come through.
    pub(super) async fn begin(session: &mut Session) -> Result<(Self, RequestBody)> {
        if session.as_mut().is_body_empty() {
            let nothing = Self {
                upstream: None,
                waiting: None,
                read: true,
                refused: false,
            };
            return Ok((nothing, RequestBody::default()));
        }
        super::tell_to_go_on(session).await?;
        session.as_mut().set_total_drain_timeout(Some(DRAIN_WITHIN));
        slow_client::body_begins();
        let (sender, body) = RequestBody::streamed();
        let upload = Self {
            upstream: Some(sender),
            waiting: None,
            read: false,
            refused: false,
        };
        Ok((upload, body))
    }

    /// Tells whether upstream has the whole body. A body with a known length ends
    /// with its last octet, so upstream may answer before the end is read here.
    pub(super) fn is_passed_on(&self, session: &mut Session) -> bool {
        let is_read = self.read || session.as_mut().is_body_done();
        is_read && self.waiting.is_none() && !self.refused
    }

    /// Passes on the pieces that come. Returns only when the client goes away.
    /// Cancel-safe: a piece that was read but not passed on is kept.
    pub(super) async fn go_on(
        &mut self,
        session: &mut Session,
        trail: Option<&mut Trail>,
    ) -> Result<Infallible> {
        self.pass_on(session, trail).await?;
        let idle = session.as_mut().read_body_or_idle(true).await;
        Err(idle.err().unwrap_or_else(client_gone::error))
    }

    /// Passes on the rest of a short body. Returns false if it is long or slow.
    pub(super) async fn finish(
        &mut self,
        session: &mut Session,
        trail: Option<&mut Trail>,
    ) -> bool {
        let passed = timeout(DRAIN_WITHIN, self.pass_on(session, trail)).await;
        matches!(passed, Ok(Ok(())))
    }

    async fn pass_on(
        &mut self,
        session: &mut Session,
        mut trail: Option<&mut Trail>,
    ) -> Result<()> {
        while let Some(upstream) = &self.upstream {
            if let Some(piece) = &self.waiting {
                if !upstream.send(piece.clone()).await {
                    self.upstream = None;
                    self.refused = true;
                }
                self.waiting = None;
            } else if self.read {
                upstream.end().await;
                self.upstream = None;
            } else {
                let piece = session.as_mut().read_request_body().await?;
                if let (Some(trail), Some(piece)) = (&mut trail, &piece) {
                    trail.request_piece(piece);
                }
                let last = piece.is_none();
                slow_client::body_received(piece.as_ref().map_or(0, Bytes::len), last);
                self.read = last;
                self.waiting = piece.filter(|piece| !piece.is_empty());
            }
        }
        Ok(())
    }
}
