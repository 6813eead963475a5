//! Takes an exchange out of pingora's hands. An empty session stays behind, which
//! must not be asked for its request any more.

use std::io::Cursor;
use std::mem;

use pingora_core::protocols::http::ServerSession;

use super::client_stream::ClientStream;
use super::{Exchange, Failure};
use crate::server::listener::coalesce::Coalesced;

impl Exchange<'_> {
    /// Takes the client's side of an exchange whose head has been answered.
    pub(in crate::server) fn detach(&mut self) -> ClientStream {
        ClientStream::new(self.take_session())
    }

    /// Takes the connection of an HTTP/1 request that has been read. Its reader gets
    /// all that the client sends after the request. Fails for HTTP/2, because there
    /// an exchange is not alone on its connection.
    pub(in crate::server) fn detach_connection(&mut self) -> Result<Box<Coalesced>, Failure> {
        let stream = match self.take_session() {
            ServerSession::H1(session) => session.into_inner(),
            ServerSession::H2(_) | ServerSession::Subrequest(_) | ServerSession::Custom(_) => {
                return Err(Failure::internal("upgrade of a shared connection"));
            }
        };
        // No listener makes another kind of stream.
        let stream = stream.into_any().downcast::<Coalesced>();
        let mut stream = stream.map_err(|_| Failure::internal("upgrade of a foreign stream"))?;
        stream.open();
        Ok(stream)
    }

    fn take_session(&mut self) -> ServerSession {
        let nothing = ServerSession::new_http1(Box::new(Cursor::new(Vec::<u8>::new())));
        mem::replace(&mut *self.session.downstream_session, nothing)
    }
}
