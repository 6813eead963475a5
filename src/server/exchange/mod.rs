//! A request and its answer. This room lies between apifront and pingora: the rooms
//! above it know an exchange, and not pingora's session, which holds it.

mod answer;
pub(super) mod answer_head;
mod body;
mod client;
pub(super) mod client_stream;
mod detach;
mod failure;
pub(super) mod port_app;
#[cfg(test)]
mod tests;
pub(super) mod wire_head;

use std::net::SocketAddr;

use http::header::HeaderName;
use http::request;
use pingora_http::RequestHeader;
use pingora_proxy::Session;

pub(super) use self::client::Shown;
pub(super) use self::failure::{Culprit, Failure};
use crate::authn::Peer;
use crate::server::listener::frame_meter::Http2State;
use crate::server::listener::head::{HeadRefusal, Rest};
use crate::server::listener::large_heads::{LargeHead, LargeHeads};
use crate::server::listener::{framing, http2};

/// A request whose client waits for the answer, in the hands of pingora.
pub(super) struct Exchange<'a> {
    session: &'a mut Session,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(session: &'a mut Session) -> Self {
        Self { session }
    }

    pub(super) fn request(&self) -> &request::Parts {
        self.session.req_header()
    }

    /// Returns the target of the request line, as the client sent it.
    pub(super) fn target(&self) -> &[u8] {
        self.session.req_header().raw_path()
    }

    /// Returns the head with the names as the client spelled them, so that it can be
    /// forwarded.
    pub(super) fn spelled_head(&self) -> &RequestHeader {
        self.session.req_header()
    }

    pub(super) fn remove_field(&mut self, name: &HeaderName) {
        self.session.req_header_mut().remove_header(name);
    }

    /// Adds the part of the head that pingora has not read. Returns the head's share
    /// of the budget.
    pub(super) fn complete_head(&mut self, rest: Rest) -> Option<LargeHead> {
        rest.complete(self.session.req_header_mut())
    }

    /// Refuses a head that is too large, or that two parsers could read differently.
    /// Returns its share of the budget if it is large.
    pub(super) fn check_head(
        &self,
        max_bytes: usize,
        large: &LargeHeads,
    ) -> Result<Option<LargeHead>, HeadRefusal> {
        if self.is_http1() {
            return Ok(None);
        }
        let client = self.client_address().map(|address| address.ip());
        let (request, target) = (self.request(), self.target());
        framing::check(
            request,
            target,
            self.http2_state(),
            client,
            max_bytes,
            large,
        )
    }

    /// Tells whether the client has the connection for itself. An HTTP/2 exchange is
    /// one of its connection's streams.
    pub(super) fn is_http1(&self) -> bool {
        self.session.as_http1().is_some()
    }

    pub(super) fn client_address(&self) -> Option<SocketAddr> {
        self.session.client_addr()?.as_inet().copied()
    }

    /// Returns the port of the listener that the client reached.
    pub(super) fn server_port(&self) -> Option<u16> {
        let address = self.session.server_addr()?.as_inet()?;
        Some(address.port())
    }

    pub(super) fn is_tls(&self) -> bool {
        let digest = self.session.digest();
        digest.is_some_and(|digest| digest.ssl_digest.is_some())
    }

    /// Returns the client at the other end of a TLS connection.
    pub(super) fn peer(&self) -> Option<&Peer> {
        let tls = self.session.digest()?.ssl_digest.as_ref()?;
        tls.extension.get::<Peer>()
    }

    fn http2_state(&self) -> Option<&Http2State> {
        http2::state(self.session.digest()?).map(|state| &**state)
    }

    /// Closes an HTTP/1 connection after this exchange.
    pub(super) fn close_http1_after(&mut self) {
        self.session.set_keepalive(None);
    }

    /// Makes this the last request of an HTTP/2 connection.
    pub(super) fn close_http2_after(&self) {
        if let Some(state) = self.http2_state() {
            state.ask_to_end();
        }
    }
}
