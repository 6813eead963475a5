//! Answers OpenAPI documents to callers whom upstream allows to get their path.

use http::{Method, request};
use kubernetes_wire::api::Status;
use kubernetes_wire::request::Deadline;

use crate::openapi::{Answered, Request};
use crate::server::reply::answer::Answer;
use crate::server::reply::refusal;
use crate::server::stage::PendingGrant;
use crate::server::stage::context::CacheResult;

/// Answers a request for a document. Returns `None` if the request is forwarded, or
/// is not about OpenAPI.
pub(in crate::server) async fn answer(
    header: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Option<Answer> {
    let info = grant.identified().info();
    let get = matches!(info.method, Method::GET | Method::HEAD);
    let escaped = header.uri.path().contains('%');
    let unclear = grant.identified().deadline() == Deadline::Unclear;
    if !get || escaped || unclear || !info.path.starts_with("/openapi/v") {
        return None;
    }
    let granted = match refusal::unless_granted(header, grant).await {
        Ok(granted) => granted,
        Err(refused) => return refused,
    };
    let info = granted.info();
    let request = Request {
        method: &info.method,
        path: &info.path,
        hash: granted.query().get("hash"),
        headers: &header.headers,
    };
    match granted.generation().openapi.answer(&request).await {
        Answered::Reply(reply) => {
            let body = vec![reply.body];
            let answer = Answer::of_parts(reply.status, reply.headers, body);
            Some(answer.out_of(CacheResult::Document))
        }
        Answered::Unavailable(error) => {
            let status = Status::service_unavailable(error);
            Some(Answer::from_status(
                &status,
                &header.headers,
                granted.query(),
            ))
        }
        Answered::Forward | Answered::NotAsked => None,
    }
}
