//! The slots of forwarded requests. Their number is bounded. A request without
//! a slot is refused as kube-apiserver refuses too many requests.

use http::request;

use super::context::RequestContext;
use super::forwarded::Authority;
use super::too_many_requests::TooManyRequests;
use crate::flow::RETRY_AFTER;

/// Takes a slot for a request that is about to be forwarded. An API server queues
/// and counts the request itself, so the seats are given back. Backends are like
/// handlers of this process: the request keeps its seats until the answer begins. As
/// in kube-apiserver's aggregator, a watch gives them back at once.
pub(in crate::server) fn take(
    request: &request::Parts,
    ctx: &mut RequestContext,
    authority: &Authority,
) -> Result<(), TooManyRequests> {
    let forwarded = ctx.generation().flow.forwarded();
    let stays_open = authority.info().is_long_running();
    let slots = match stays_open {
        true => &forwarded.long_running,
        false => &forwarded.in_flight,
    };
    let Ok(slot) = slots.take(authority.user()) else {
        return Err(TooManyRequests::note(request, ctx, RETRY_AFTER));
    };
    let seats = std::mem::take(&mut ctx.guards.in_flight);
    if stays_open {
        ctx.guards.forwarded = Some(slot);
    } else {
        let kept = match authority {
            Authority::Backend(_) => seats,
            Authority::Upstream(_) => seats.handed_over(),
        };
        ctx.guards.in_flight = kept.with_slot(slot);
    }
    Ok(())
}
