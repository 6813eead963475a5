//! The seats of requests in flight. A request waits for its seats as long as its
//! client is there.

use std::sync::Arc;
use std::time::Duration;

use kubernetes_wire::request::Deadline;
use tokio::time::timeout;

use super::context::RequestContext;
use super::identified::Identified;
use super::too_many_requests::TooManyRequests;
use super::width_estimate;
use crate::flow::{Admitted, Refused, RequestKind, Started, Waiting};
use crate::server::exchange::{Exchange, Failure};

pub(in crate::server) async fn take(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    identified: &Arc<Identified>,
) -> Result<Result<(), TooManyRequests>, Failure> {
    let kind = RequestKind::from_info(identified.info());
    let flow = &identified.generation().flow;
    let class = flow.classify(kind, identified.clone());
    let Some(user) = identified.user() else {
        // apifront's own user, who started it, needs no seats.
        ctx.classification = class;
        return Ok(Ok(()));
    };
    let width = width_estimate::estimate(identified, exchange.request(), class.as_ref());
    let admitted = match flow.start(kind, user, class.as_ref(), width) {
        Ok(Started::Admitted(admitted)) => Ok(admitted),
        // This is boxed, because every request would reserve memory for it, and
        // hardly any request waits.
        Ok(Started::Waits(waiting)) => Box::pin(wait(exchange, identified, waiting)).await?,
        Err(refused) => Err(refused),
    };
    ctx.classification = class;
    match admitted {
        Ok(admitted) => {
            ctx.guards.in_flight = admitted;
            Ok(Ok(()))
        }
        Err(refused) => Ok(Err(TooManyRequests::note(
            exchange.request(),
            ctx,
            refused.retry_after,
        ))),
    }
}

async fn wait(
    exchange: &mut Exchange<'_>,
    identified: &Identified,
    waiting: Waiting<'_>,
) -> Result<Result<Admitted, Refused>, Failure> {
    let within = match (waiting.kind(), identified.deadline()) {
        (RequestKind::ReadOnly | RequestKind::Mutating, Deadline::Within(within)) => Some(within),
        _ => None,
    };
    tokio::select! {
        biased;
        admitted = waiting.seats(within) => Ok(admitted),
        () = exchange.client_gone() => Err(Failure::client_gone()),
    }
}

/// A client that has not taken a piece after this time counts as slow. Its request
/// then holds no seat, so that others can have it.
pub(in crate::server) const PIECE_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits for a write, and calls `waits` if the write is not prompt.
pub(in crate::server) async fn write<T>(write: impl Future<Output = T>, waits: impl FnOnce()) -> T {
    let mut write = std::pin::pin!(write);
    match timeout(PIECE_TIMEOUT, &mut write).await {
        Ok(written) => written,
        Err(_) => {
            waits();
            write.await
        }
    }
}

/// How long an abandoned request keeps its slot among the forwarded requests if
/// upstream had begun it. Such requests cost a client nothing, but upstream works on
/// them for a while. With this pause, a user with 1,000 slots can abandon 1,000
/// requests a second.
const AFTER_GIVING_UP: Duration = Duration::from_secs(1);

/// Gives the seats back at once, and the slot of the forwarded request after a
/// second.
pub(in crate::server) fn give_back_later(in_flight: &mut Admitted) {
    if let Some(slot) = std::mem::take(in_flight).into_slot() {
        tokio::spawn(async move {
            tokio::time::sleep(AFTER_GIVING_UP).await;
            drop(slot);
        });
    }
}

/// Gives the seats back, because the answer is ready, or the initial events of a
/// watch are sent, or they wait for the client.
pub(in crate::server) fn give_back(in_flight: &mut Admitted) {
    drop(std::mem::take(in_flight));
}
