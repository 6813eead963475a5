//! OpenAPI documents, for whom upstream allows to get their path.

use http::Method;
use pingora_proxy::Session;

use super::audit::refuse_unauthorized;
use super::context::{CacheResult, RequestContext};
use super::respond::Answer;
use crate::api::Status;
use crate::openapi::{Outcome, Request};

/// `None`: it is forwarded, or has nothing to do with OpenAPI.
pub(super) async fn answer(session: &Session, ctx: &mut RequestContext) -> Option<Answer> {
    let info = ctx.info.as_ref()?;
    let header = session.req_header();
    let get = matches!(info.method, Method::GET | Method::HEAD);
    let escaped = header.uri.path().contains('%');
    // Whom upstream takes for somebody else, upstream alone can authorize.
    if !get || escaped || ctx.impersonates_upstream || !info.path.starts_with("/openapi/v") {
        return None;
    }
    if let Some(refused) = refuse_unauthorized(session, ctx).await {
        return Some(refused);
    }
    let info = ctx.info.as_ref()?;
    let request = Request {
        method: &info.method,
        path: &info.path,
        hash: ctx.query.get("hash"),
        headers: &header.headers,
    };
    match ctx.front.openapi.answer(&request).await {
        Outcome::Reply(reply) => {
            ctx.cache = CacheResult::Document;
            let body = vec![reply.body];
            Some(Answer::of_parts(reply.status, reply.headers, body))
        }
        Outcome::Unavailable(error) => {
            let status = Status::service_unavailable(error);
            Some(Answer::from_status(&status, &header.headers, &ctx.query))
        }
        Outcome::Forward | Outcome::NotAsked => None,
    }
}
