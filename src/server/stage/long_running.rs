//! The places of forwarded requests that stay open. There is a bounded number of
//! them; a request without one is refused as kube-apiserver refuses too many
//! requests.

use pingora_proxy::Session;

use super::context::RequestContext;
use super::identified::Identified;
use super::too_many_requests::TooManyRequests;

/// Takes the request's place, if it stays open.
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
