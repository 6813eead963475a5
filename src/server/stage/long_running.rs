//! The place of a forwarded request that stays open: it has one of a bounded
//! number, or is refused as kube-apiserver refuses what is too much.

use pingora_proxy::Session;

use super::access_log::Finished;
use super::context::RequestContext;
use crate::server::answer::respond::Answer;
use crate::server::stage::Identified;

/// An answer is a refusal.
pub(in crate::server) fn take(
    session: &Session,
    ctx: &mut RequestContext,
    identified: &Identified,
) -> Option<Answer> {
    if !identified.info().is_long_running() {
        return None;
    }
    match ctx.front.limits.forwarded().open(identified.user()) {
        Ok(open) => {
            ctx.guards.forwarded = Some(open);
            None
        }
        Err(_) => {
            let answer = Answer::too_many_requests();
            ctx.reply.code = answer.status.as_u16();
            Finished::new(session, ctx).terminated();
            Some(answer)
        }
    }
}
