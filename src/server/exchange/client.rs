//! Notices when the client of an exchange goes away.

use std::future::pending;
use std::mem;
use std::sync::Arc;

use http::{Request, request};
use pingora_core::ErrorType;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::tls::SslDigest;
use pingora_http::RequestHeader;

use super::{Exchange, Failure};
use crate::authn::Peer;

/// The client of an exchange, whose leaving is waited for.
pub(in crate::server) struct Client<'e> {
    session: &'e mut ServerSession,
    is_watched: bool,
}

impl Client<'_> {
    /// Resolves when no client waits for the answer any more. While an HTTP/1 client
    /// still has to send its body, its end is not noticed.
    pub(in crate::server) async fn gone(&mut self) {
        if !self.is_watched {
            return pending().await;
        }
        if let Some(closed) = self.session.watch_h2_stream_close() {
            // Why the stream closed does not matter.
            let _ = closed.await;
            return;
        }
        if let Err(error) = self.session.read_body_or_idle(true).await
            && *error.etype() == ErrorType::ConnectError
        {
            // The client has sent a part of its next request, which is lost now.
            self.session.set_keepalive(None);
            pending().await
        }
    }
}

/// What an exchange shows of its request, apart from its client, so that the one can be
/// read while the other is watched. The exchange has its head again when this is
/// dropped.
pub(in crate::server) struct Apart<'e> {
    head: RequestHeader,
    tls: Option<Arc<SslDigest>>,
    client: Client<'e>,
}

#[derive(Clone, Copy)]
pub(in crate::server) struct Shown<'e> {
    pub(in crate::server) request: &'e request::Parts,
    tls: Option<&'e SslDigest>,
}

impl<'e> Shown<'e> {
    /// Returns the client at the other end of a TLS connection.
    pub(in crate::server) fn peer(self) -> Option<&'e Peer> {
        self.tls?.extension.get::<Peer>()
    }
}

impl Apart<'_> {
    /// Returns the request, and a future that resolves when no client waits for the
    /// answer any more.
    pub(in crate::server) fn split(&mut self) -> (Shown<'_>, impl Future<Output = ()>) {
        let shown = Shown {
            request: &self.head,
            tls: self.tls.as_deref(),
        };
        (shown, self.client.gone())
    }
}

impl Drop for Apart<'_> {
    fn drop(&mut self) {
        mem::swap(&mut self.head, self.client.session.req_header_mut());
    }
}

impl Exchange<'_> {
    fn client(&mut self) -> Client<'_> {
        let is_http1 = self.is_http1();
        let is_watched = !is_http1 || !self.has_body() || self.is_body_read();
        Client {
            session: self.session.as_mut(),
            is_watched,
        }
    }

    pub(in crate::server) fn apart(&mut self) -> Apart<'_> {
        let tls = self.session.digest().and_then(|d| d.ssl_digest.clone());
        let (nothing, ()) = Request::new(()).into_parts();
        let client = self.client();
        let head = mem::replace(client.session.req_header_mut(), nothing.into());
        Apart { head, tls, client }
    }

    /// Resolves when no client waits for the answer any more, as [`Client::gone`] does.
    pub(in crate::server) async fn client_gone(&mut self) {
        self.client().gone().await;
    }

    /// Waits, after the end of the body, until the client goes away. Anything that
    /// it sends is a failure, too.
    pub(in crate::server) async fn failed_after_body(&mut self) -> Failure {
        let idle = self.session.read_body_or_idle(true).await;
        idle.map_or_else(Failure::by_client, |_| Failure::client_gone())
    }
}
