//! The seats of requests in flight. A request waits for its seats as long as its
//! client is there.

use std::time::Duration;

use kubernetes_wire::request::Deadline;
use pingora_core::Result;
use pingora_proxy::Session;
use tokio::time::timeout;

use super::context::RequestContext;
use super::identified::Identified;
use super::too_many_requests::TooManyRequests;
use super::width;
use crate::flow::{Admitted, RequestKind};
use crate::server::listener::client_gone;

/// Classifies the request, and waits for its seats.
pub(in crate::server) async fn take(
    session: &mut Session,
    ctx: &mut RequestContext,
    identified: &Identified,
) -> Result<std::result::Result<(), TooManyRequests>> {
    let info = identified.info();
    let kind = RequestKind::of(info);
    let Some(user) = identified.user() else {
        // apifront's own user, who started it, needs no seats.
        ctx.classification = identified.owner().and_then(|owner| {
            let flow = &identified.generation().flow;
            flow.classify(kind, info, &owner)
        });
        return Ok(Ok(()));
    };
    let flow = &identified.generation().flow;
    let class = flow.classify(kind, info, user);
    let width = width::of(identified, session.req_header(), class.as_ref());
    let within = match (kind, identified.deadline()) {
        (RequestKind::ReadOnly | RequestKind::Mutating, Deadline::Within(within)) => Some(within),
        _ => None,
    };
    let admitted = tokio::select! {
        biased;
        admitted = flow.admit(kind, user, class.as_ref(), width, within) => admitted,
        () = client_gone::wait(session) => {
            return Err(client_gone::error());
        }
    };
    ctx.classification = class;
    match admitted {
        Ok(admitted) => {
            ctx.guards.in_flight = admitted;
            Ok(Ok(()))
        }
        Err(refused) => Ok(Err(TooManyRequests::note(
            session,
            ctx,
            refused.retry_after,
        ))),
    }
}

/// The time after which a client that has not taken a piece counts as slow.
/// Then its request holds no seat, so that the answer takes no seat from
/// others.
pub(in crate::server) const PROMPT: Duration = Duration::from_secs(1);

/// Waits for a write, and calls `waits` if the write is not prompt.
pub(in crate::server) async fn write<T>(write: impl Future<Output = T>, waits: impl FnOnce()) -> T {
    let mut write = std::pin::pin!(write);
    match timeout(PROMPT, &mut write).await {
        Ok(written) => written,
        Err(_) => {
            waits();
            write.await
        }
    }
}

/// The time for which a request that upstream began and that was given up keeps
/// its place among the forwarded ones. Such requests cost a client nothing, and
/// upstream works on them for a while: a user with 1,000 places can give up
/// 1,000 a second.
const AFTER_GIVING_UP: Duration = Duration::from_secs(1);

/// Gives the place of a forwarded request back in a second, and the seats at
/// once.
pub(in crate::server) fn give_back_later(in_flight: &mut Admitted) {
    if let Some(place) = std::mem::take(in_flight).into_place() {
        tokio::spawn(async move {
            tokio::time::sleep(AFTER_GIVING_UP).await;
            drop(place);
        });
    }
}

/// Gives the seats back. The answer is ready, or the initial events of a watch
/// are sent, or they wait for the client.
pub(in crate::server) fn give_back(in_flight: &mut Admitted) {
    drop(std::mem::take(in_flight));
}
