//! The refusal of a request to protect this process.

use http::StatusCode;
use pingora_proxy::Session;

use super::access_log::Finished;
use super::context::RequestContext;

/// The refusal of a request because there are too many.
pub(in crate::server) struct TooManyRequests {
    /// The seconds after which the client should come back.
    pub(in crate::server) retry_after: u64,
}

impl TooManyRequests {
    /// Counts the refusal of a request.
    pub(super) fn note(session: &Session, ctx: &mut RequestContext, retry_after: u64) -> Self {
        ctx.reply.code = StatusCode::TOO_MANY_REQUESTS.as_u16();
        Finished::new(session, ctx).terminated();
        Self { retry_after }
    }
}
