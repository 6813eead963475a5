//! The failures that end an exchange without its answer.

use std::error::Error as StdError;
use std::fmt;

use pingora_core::{Error, ErrorSource, ErrorType};

/// The reason why pingora must end an exchange. It decides what the client is told,
/// if there is still a client.
#[derive(Debug)]
pub(in crate::server) struct Failure(Box<Error>);

impl Failure {
    /// Makes the failure of an exchange whose client has gone, or does not wait for
    /// the answer.
    pub(in crate::server) fn client_gone() -> Self {
        let gone = Error::explain(ErrorType::ConnectionClosed, "the client went away");
        Self::by_client(gone)
    }

    /// Makes the failure of an exchange whose client reads too slowly.
    pub(in crate::server) fn too_slow(why: &'static str) -> Self {
        Self::by_client(Error::explain(ErrorType::WriteTimedout, why))
    }

    /// Makes the failure of an exchange that should not have come so far.
    pub(in crate::server) fn internal(why: &'static str) -> Self {
        Self(Error::explain(ErrorType::InternalError, why))
    }

    /// Makes the failure of an exchange whose answer upstream broke off.
    pub(in crate::server) fn upstream_broke_off(
        cause: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self(Error::because(ErrorType::ReadError, "upstream", cause))
    }

    /// Makes the failure of an exchange whose client could not be read from or written
    /// to.
    pub(super) fn by_client(error: Box<Error>) -> Self {
        Self(error.into_down())
    }

    /// Tells whether the client did not take a piece in time.
    pub(in crate::server) fn is_write_timeout(&self) -> bool {
        *self.0.etype() == ErrorType::WriteTimedout
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Box<Error>> for Failure {
    fn from(error: Box<Error>) -> Self {
        Self(error)
    }
}

impl From<Failure> for Box<Error> {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

/// The side that broke off an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Culprit {
    Upstream,
    Other,
}

impl Culprit {
    pub(in crate::server) fn from_error(error: &Error) -> Self {
        match error.esource() {
            ErrorSource::Upstream => Self::Upstream,
            ErrorSource::Downstream | ErrorSource::Internal | ErrorSource::Unset => Self::Other,
        }
    }
}
