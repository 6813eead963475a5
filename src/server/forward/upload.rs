//! Passes on the body of a request that does not go through pingora, before and
//! while its answer comes.

use std::convert::Infallible;

use apifront_upstream::request_body::{BodySender, RequestBody};
use bytes::Bytes;
use tokio::time::timeout;

use crate::audit::Trail;
use crate::server::exchange::{Exchange, Failure};
use crate::server::listener::slow_client;
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
    pub(super) async fn begin(exchange: &mut Exchange<'_>) -> Result<(Self, RequestBody), Failure> {
        if !exchange.has_body() {
            let nothing = Self {
                upstream: None,
                waiting: None,
                read: true,
                refused: false,
            };
            return Ok((nothing, RequestBody::default()));
        }
        exchange.tell_to_go_on().await?;
        exchange.drain_within(DRAIN_WITHIN);
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
    pub(super) fn is_passed_on(&self, exchange: &mut Exchange<'_>) -> bool {
        let is_read = self.read || exchange.is_body_read();
        is_read && self.waiting.is_none() && !self.refused
    }

    /// Passes on the pieces that come. Returns only when the client goes away.
    /// Cancel-safe: a piece that was read but not passed on is kept.
    pub(super) async fn go_on(
        &mut self,
        exchange: &mut Exchange<'_>,
        trail: Option<&mut Trail>,
    ) -> Result<Infallible, Failure> {
        self.pass_on(exchange, trail).await?;
        Err(exchange.failed_after_body().await)
    }

    /// Passes on the rest of a short body. Returns false if it is long or slow.
    pub(super) async fn finish(
        &mut self,
        exchange: &mut Exchange<'_>,
        trail: Option<&mut Trail>,
    ) -> bool {
        let passed = timeout(DRAIN_WITHIN, self.pass_on(exchange, trail)).await;
        matches!(passed, Ok(Ok(())))
    }

    async fn pass_on(
        &mut self,
        exchange: &mut Exchange<'_>,
        mut trail: Option<&mut Trail>,
    ) -> Result<(), Failure> {
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
                let piece = exchange.read_body().await?;
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
