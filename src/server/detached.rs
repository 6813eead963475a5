//! Taking a connection out of pingora's hands.
//!
//! A watch that lives in pingora's request task costs 25 to 77 KB of futures;
//! in a task of its own 6 to 40. And a tunnel needs the bare stream. A dummy
//! session stays behind, which nobody may ask for its request any more.

use std::io::Cursor;
use std::mem;

use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_proxy::Session;

/// Takes the whole downstream session: an HTTP/1 connection or an HTTP/2
/// stream.
pub(super) fn take_session(session: &mut Session) -> ServerSession {
    let dummy = ServerSession::new_http1(Box::new(Cursor::new(Vec::<u8>::new())));
    mem::replace(&mut *session.downstream_session, dummy)
}

/// Takes the bare stream of an HTTP/1 connection whose request has no body.
/// `None` for HTTP/2, where a stream is not a connection.
pub(super) fn take_stream(session: &mut Session) -> Option<Stream> {
    session.as_http1()?;
    match take_session(session) {
        ServerSession::H1(v1) => Some(v1.into_inner()),
        ServerSession::H2(_) | ServerSession::Subrequest(_) | ServerSession::Custom(_) => None,
    }
}
