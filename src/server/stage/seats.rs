//! The seats of requests in flight. A request waits for its seats as long as its
//! client is there.

use std::sync::Arc;
use std::time::Duration;

use kubernetes_wire::request::Deadline;
use pingora_core::Result;
use pingora_proxy::Session;
use tokio::time::timeout;

use super::context::RequestContext;
use super::identified::Identified;
use super::too_many_requests::TooManyRequests;
use super::width;
use crate::flow::{Admitted, Refused, RequestKind, Started, Waiting};
use crate::server::listener::client_gone;

/// Classifies the request, and waits for its seats.
pub(in crate::server) async fn take(
    session: &mut Session,
    ctx: &mut RequestContext,
    identified: &Arc<Identified>,
) -> Result<std::result::Result<(), TooManyRequests>> {
    let kind = RequestKind::of(identified.info());
    let flow = &identified.generation().flow;
    let class = flow.classify(kind, identified.clone());
    let Some(user) = identified.user() else {
        // apifront's own user, who started it, needs no seats.
        ctx.classification = class;
        return Ok(Ok(()));
    };
    let width = width::of(identified, session.req_header(), class.as_ref());
    let admitted = match flow.start(kind, user, class.as_ref(), width) {
        Ok(Started::Admitted(admitted)) => Ok(admitted),
        // In a box: all requests have room for what is kept here, and hardly any
        // waits.
        Ok(Started::Waits(waiting)) => Box::pin(wait(session, identified, waiting)).await?,
        Err(refused) => Err(refused),
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

/// Waits for seats as long as the client is there.
async fn wait(
    session: &mut Session,
    identified: &Identified,
    waiting: Waiting<'_>,
) -> Result<std::result::Result<Admitted, Refused>> {
    let within = match (waiting.kind(), identified.deadline()) {
        (RequestKind::ReadOnly | RequestKind::Mutating, Deadline::Within(within)) => Some(within),
        _ => None,
    };
    tokio::select! {
        biased;
        admitted = waiting.seats(within) => Ok(admitted),
        () = client_gone::wait(session) => Err(client_gone::error()),
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
