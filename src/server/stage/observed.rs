//! The look at an answer that passes.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

/// Looks at upstream's answer while it is passed on.
pub(in crate::server) trait AnswerObserver: Send + Sync {
    /// Sees the head of upstream's answer, before anything of it is changed.
    fn answered(&mut self, status: StatusCode, headers: &HeaderMap);

    /// Sees more of the body. Returns `None` if it needs no more.
    fn piece(self: Box<Self>, bytes: &[u8], is_end: bool) -> Option<Box<dyn AnswerObserver>>;
}

/// Holds upstream's answer back, and may give another in its place.
pub(in crate::server) trait AnswerKeeper: Send + Sync {
    /// Sees the head of upstream's answer, and tells whether the body may become
    /// another one.
    fn answered(&mut self, status: StatusCode, headers: &HeaderMap) -> bool;

    /// Sees a piece of the body, and leaves in its place what is sent.
    fn piece(&mut self, piece: &mut Option<Bytes>);
}
