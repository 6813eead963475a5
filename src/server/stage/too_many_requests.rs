//! The refusal of a request to protect this process. `flow/mod.rs` chooses its
//! `Retry-After`.

use http::{StatusCode, request};

use super::access_log::Finished;
use super::context::RequestContext;

pub(in crate::server) struct TooManyRequests {
    /// The seconds after which the client should try again.
    pub(in crate::server) retry_after: u64,
}

impl TooManyRequests {
    pub(super) fn note(
        request: &request::Parts,
        ctx: &mut RequestContext,
        retry_after: u64,
    ) -> Self {
        ctx.reply.code = StatusCode::TOO_MANY_REQUESTS.as_u16();
        Finished::new(request, ctx).terminated();
        Self { retry_after }
    }
}
