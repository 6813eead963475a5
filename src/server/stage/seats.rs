//! The seats of requests in flight. A request waits for its seat as long as its
//! client is there.

use std::time::Duration;

use pingora_core::Result;
use pingora_proxy::Session;
use tokio::time::timeout;

use super::context::RequestContext;
use super::identified::Identified;
use super::too_many_requests::TooManyRequests;
use crate::flow::{Admitted, Rejected, RequestKind};
use crate::server::listener::client_gone;

/// Waits for the request's seat.
pub(in crate::server) async fn take(
    session: &mut Session,
    ctx: &mut RequestContext,
    identified: &Identified,
) -> Result<std::result::Result<(), TooManyRequests>> {
    // apifront's own user, who started it, needs no seat.
    let Some(user) = identified.user() else {
        return Ok(Ok(()));
    };
    let kind = RequestKind::of(identified.info());
    let admitted = tokio::select! {
        biased;
        admitted = ctx.generation().flow.admit(kind, user) => admitted,
        () = client_gone::wait(session) => {
            return Err(client_gone::error());
        }
    };
    match admitted {
        Ok(admitted) => {
            ctx.guards.in_flight = admitted;
            Ok(Ok(()))
        }
        Err(Rejected::ConcurrencyLimit | Rejected::QueueFull | Rejected::TimeOut) => {
            Ok(Err(TooManyRequests::note(session, ctx)))
        }
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

/// Gives the seat back. The answer is ready, or the initial events of a watch
/// are sent, or they wait for the client.
pub(in crate::server) fn give_back(in_flight: &mut Admitted) {
    drop(std::mem::take(in_flight));
}
