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

/// The time for which a user does without the seat of a request that upstream
/// began and that was given up. Such requests cost a client nothing, and
/// upstream works on them for a while: a user with 100 seats can give up 100 a
/// second.
const AFTER_GIVING_UP: Duration = Duration::from_secs(1);

/// Gives the user's own seat back in a second, and others at once.
pub(in crate::server) fn give_back_later(in_flight: &mut Admitted) {
    if let Some(seat) = std::mem::take(in_flight).into_own_seat() {
        tokio::spawn(async move {
            tokio::time::sleep(AFTER_GIVING_UP).await;
            drop(seat);
        });
    }
}

/// Gives the seat back. The answer is ready, or the initial events of a watch
/// are sent, or they wait for the client.
pub(in crate::server) fn give_back(in_flight: &mut Admitted) {
    drop(std::mem::take(in_flight));
}
