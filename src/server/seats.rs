//! A request's seats among those in flight: waited for while its client is
//! there.

use pingora_core::Result;
use pingora_proxy::Session;

use super::context::RequestContext;
use super::record::Finished;
use super::respond::Answer;
use super::stage::Identified;
use super::stream::client_went_away;
use crate::flow::{Admitted, Rejected, RequestKind};

/// An answer is a refusal.
pub(super) async fn take(
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

/// The initial events of a watch are sent, or there are none.
pub(super) fn give_back(in_flight: &mut Admitted) {
    drop(std::mem::take(in_flight));
}
