//! Interfaces to code that looks at an answer while it passes.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

/// Looks at upstream's answer while it is passed on.
pub(in crate::server) trait AnswerObserver: Send + Sync {
    /// Sees the head of upstream's answer, before anything in it is changed.
    fn answered(&mut self, status: StatusCode, headers: &HeaderMap);

    /// Sees more of the body. Returns `None` if it needs no more.
    fn piece(self: Box<Self>, bytes: &[u8], is_end: bool) -> Option<Box<dyn AnswerObserver>>;
}

/// Holds upstream's answer back, and may replace it.
pub(in crate::server) trait AnswerKeeper: Send + Sync {
    /// Sees the head of upstream's answer. Returns whether the body may be replaced.
    fn answered(&mut self, status: StatusCode, headers: &HeaderMap) -> bool;

    /// Sees a piece of the body, and replaces it with what is sent.
    fn piece(&mut self, piece: &mut Option<Bytes>);
}
