//! Decides which failures show that an API server cannot be reached.
//!
//! A failure counts only if it comes before any part of a request was sent, and if
//! this machine did not cause it. A later failure (an unparsable answer, a reset, a
//! timeout) may be caused by that one request: if it counted, one caller could take
//! every server out of service for all.

use std::error::Error;
use std::fmt;
use std::io;

use pingora_core::ErrorType;

/// Linux error codes: no more file descriptors in this process and on this machine,
/// no more ports, no buffers, no memory.
const OUR_OWN_LIMITS: [i32; 5] = [24, 23, 99, 105, 12];

/// The reason why a server could not be connected to. It cannot be made from other
/// failures, so none of them can be reported as one.
#[derive(Clone, Debug)]
pub struct Unreachable(String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Unreachable {
    /// Returns the reason for a failure of TCP, TLS or the name's lookup.
    pub fn by_io(error: &io::Error) -> Option<Self> {
        let ours = error
            .raw_os_error()
            .is_some_and(|code| OUR_OWN_LIMITS.contains(&code))
            || error.source().is_some_and(is_our_limit);
        (!ours).then(|| Self(error.to_string()))
    }

    /// Returns the reason for a connection that was not made in time.
    pub(super) fn by_timeout(error: &dyn fmt::Display) -> Self {
        Self(error.to_string())
    }

    /// Returns the reason for a failure that pingora reports. pingora's
    /// `fail_to_connect` also reports failures of streams on existing
    /// connections, which do not count.
    pub fn by_pingora(error: &pingora_core::Error) -> Option<Self> {
        let connecting = matches!(
            error.etype(),
            ErrorType::ConnectTimedout
                | ErrorType::ConnectRefused
                | ErrorType::ConnectNoRoute
                | ErrorType::ConnectError
                | ErrorType::TLSHandshakeFailure
                | ErrorType::TLSHandshakeTimedout
                | ErrorType::InvalidCert
                | ErrorType::HandshakeError
        );
        let cause: &(dyn Error + 'static) = error.root_cause();
        (connecting && !is_our_limit(cause)).then(|| Self(error.to_string()))
    }

    /// Returns the reason for a failure of one of apifront's own requests.
    pub(super) fn by_client(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut connecting = false;
        let mut cause = Some(error);
        while let Some(error) = cause {
            connecting |= error
                .downcast_ref::<hyper_util::client::legacy::Error>()
                .is_some_and(hyper_util::client::legacy::Error::is_connect);
            if is_our_limit(error) {
                return None;
            }
            cause = error.source();
        }
        connecting.then(|| Self(error.to_string()))
    }
}

fn is_our_limit(error: &(dyn Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::raw_os_error)
        .is_some_and(|code| OUR_OWN_LIMITS.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_cannot_be_connected_to_is_blamed() {
        let pingora = |kind| Unreachable::by_pingora(&pingora_core::Error::new(kind)).is_some();
        for (kind, blamed) in [
            (ErrorType::ConnectRefused, true),
            (ErrorType::ConnectTimedout, true),
            (ErrorType::TLSHandshakeFailure, true),
            (ErrorType::InternalError, false),
            (ErrorType::H2Error, false),
            (ErrorType::InvalidHTTPHeader, false),
            (ErrorType::ReadTimedout, false),
            (ErrorType::ConnectionClosed, false),
        ] {
            assert_eq!(pingora(kind.clone()), blamed, "{kind:?}");
        }
        for (code, blamed) in [(111, true), (113, true), (24, false), (99, false)] {
            let error = || io::Error::from_raw_os_error(code);
            assert_eq!(Unreachable::by_io(&error()).is_some(), blamed, "{code}");
            let error = pingora_core::Error::because(ErrorType::ConnectError, "x", error());
            assert_eq!(Unreachable::by_pingora(&error).is_some(), blamed, "{code}");
        }
        let other = io::Error::other("not of a connection");
        assert!(Unreachable::by_client(&other).is_none());
    }
}
