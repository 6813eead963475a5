//! A request's seats among those in flight: waited for while its client is
//! there.

use std::time::Duration;

use pingora_core::Result;
use pingora_proxy::Session;
use tokio::time::timeout;

use super::access_log::Finished;
use super::context::RequestContext;
use crate::flow::{Admitted, Rejected, RequestKind};
use crate::server::answer::respond::Answer;
use crate::server::answer::stream::client_went_away;
use crate::server::stage::Identified;

/// An answer is a refusal.
pub(in crate::server) async fn take(
    session: &mut Session,
    ctx: &mut RequestContext,
    identified: &Identified,
) -> Result<Option<Answer>> {
    // apifront's own user is whoever started it.
    let Some(user) = identified.user() else {
        return Ok(None);
    };
    let kind = RequestKind::of(identified.info());
    let admitted = tokio::select! {
        biased;
        admitted = ctx.front.limits.admit(kind, user) => admitted,
        () = client_gone(session) => {
            return Err(client_went_away());
        }
    };
    match admitted {
        Ok(admitted) => {
            ctx.guards.in_flight = admitted;
            Ok(None)
        }
        Err(Rejected::ConcurrencyLimit | Rejected::QueueFull | Rejected::TimeOut) => {
            let answer = Answer::too_many_requests();
            ctx.reply.code = answer.status.as_u16();
            Finished::new(session, ctx).terminated();
            Ok(Some(answer))
        }
    }
}
/// Resolves when nobody waits for the answer any more. That an HTTP/1 client
/// which still has to send its body has gone is not noticed.
async fn client_gone(session: &mut Session) {
    let session = session.as_mut();
    let has_body = !session.is_body_empty();
    if session.as_http1().is_none() {
        if let Some(closed) = session.watch_h2_stream_close() {
            // How it ended matters to nobody.
            let _ = closed.await;
            return;
        }
    } else if !has_body {
        let _ = session.read_body_or_idle(true).await;
        return;
    }
    std::future::pending().await
}

/// A reader that lets a piece wait for longer is a slow one: what is made for it
/// takes no seat from others meanwhile.
pub(in crate::server) const PROMPT: Duration = Duration::from_secs(1);

/// Waits for a write, and tells if it is not prompt.
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

/// The answer is ready; the initial events of a watch are sent, or wait for its
/// reader.
pub(in crate::server) fn give_back(in_flight: &mut Admitted) {
    drop(std::mem::take(in_flight));
}
