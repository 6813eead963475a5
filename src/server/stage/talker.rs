//! Counts a request for its user and user agent, for the status page.

use std::sync::Arc;

use http::header::USER_AGENT;
use http::request;

use super::context::{CacheResult, RequestContext};
use crate::status::talkers::{self, Amounts, Caller, Talkers};

const NO_TEXT: &str = "(not UTF-8)";

/// The caller of a request that outlives its exchange. The names are already cut to
/// their longest length.
pub(in crate::server) struct Talker {
    talkers: Arc<Talkers>,
    user: Box<str>,
    agent: Box<str>,
    /// The user who was authenticated, if the request acts as another user.
    authenticated: Option<Box<str>>,
    from_cache: bool,
}

impl Talker {
    /// Makes the talker of a request whose answer has begun. Counts a watch as
    /// opened.
    pub(in crate::server) fn begun(request: &request::Parts, ctx: &RequestContext) -> Self {
        let talkers = ctx.generation().talkers.clone();
        let caller = caller(request, ctx);
        if ctx.is_watch() && matches!(ctx.reply.code, 101 | 200..=299) {
            talkers.count(caller, &Amounts::of_opened_watch());
        }
        let other = (caller.authenticated != caller.user).then_some(caller.authenticated);
        let kept = |name| talkers::cut(name).into();
        Self {
            talkers,
            user: kept(caller.user),
            agent: kept(caller.agent),
            authenticated: other.map(kept),
            from_cache: is_from_cache(ctx),
        }
    }

    pub(in crate::server) fn ended(&self, bytes: usize) {
        let caller = Caller {
            user: &self.user,
            agent: &self.agent,
            authenticated: self.authenticated.as_ref().unwrap_or(&self.user),
        };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let amounts = Amounts::of_answer(bytes, self.from_cache);
        self.talkers.count(caller, &amounts);
    }
}

/// Counts a request that pingora saw to its end.
pub(super) fn count(request: &request::Parts, ctx: &RequestContext, bytes: usize) {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let amounts = Amounts::of_answer(bytes, is_from_cache(ctx));
    let talkers = &ctx.generation().talkers;
    talkers.count(caller(request, ctx), &amounts);
}

fn caller<'a>(request: &'a request::Parts, ctx: &'a RequestContext) -> Caller<'a> {
    let identified = ctx.stage().identified();
    let user = identified.and_then(|i| i.user());
    let known = identified.and_then(|i| i.known());
    let agent = request.headers.get(USER_AGENT);
    Caller {
        user: user.map_or("", |user| &user.name),
        agent: agent.map_or("", |agent| {
            std::str::from_utf8(agent.as_bytes()).unwrap_or(NO_TEXT)
        }),
        authenticated: known.map_or("", |user| &user.name),
    }
}

fn is_from_cache(ctx: &RequestContext) -> bool {
    matches!(
        ctx.reply.cache,
        CacheResult::Hit(_) | CacheResult::Document | CacheResult::Remembered
    )
}
