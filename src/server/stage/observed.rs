//! The look at an answer that passes.

use http::{HeaderMap, StatusCode};

/// Looks at upstream's answer while it is passed on.
pub(in crate::server) trait AnswerObserver: Send + Sync {
    /// Sees the head of upstream's answer, before anything of it is changed.
    fn answered(&mut self, status: StatusCode, headers: &HeaderMap);

    /// Sees more of the body. Returns `None` if it needs no more.
    fn piece(self: Box<Self>, bytes: &[u8], is_end: bool) -> Option<Box<dyn AnswerObserver>>;
}
