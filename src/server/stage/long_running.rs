//! The places of forwarded requests that stay open. Their number is bounded. A
//! request without a place is refused as kube-apiserver refuses too many
//! requests.

use pingora_proxy::Session;

use super::context::RequestContext;
use super::identified::Identified;
use super::too_many_requests::TooManyRequests;

/// Takes a place for the request, if the request stays open.
pub(in crate::server) fn take(
    session: &Session,
    ctx: &mut RequestContext,
    identified: &Identified,
) -> Result<(), TooManyRequests> {
    if !identified.info().is_long_running() {
        return Ok(());
    }
    match ctx.generation().flow.forwarded().open(identified.user()) {
        Ok(open) => {
            ctx.guards.forwarded = Some(open);
            Ok(())
        }
        Err(_) => Err(TooManyRequests::note(session, ctx)),
    }
}
