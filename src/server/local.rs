//! Paths that apifront answers for itself: health, metrics, the cache's state.

use std::time::Instant;

use http::{Method, StatusCode};
use pingora_proxy::Session;

use super::audit;
use super::context::RequestContext;
use super::debug::{self, CACHE_PATH};
use super::front::Front;
use super::respond::Answer;
use crate::api::Query;
use crate::metrics::CONTENT_TYPE;

/// `/livez`, `/readyz`, `/healthz` and their checks, for everybody.
pub(super) fn health(session: &Session, ctx: &RequestContext) -> Option<Answer> {
    let request = session.req_header();
    let query = request.uri.query().unwrap_or_default();
    answer_health(&ctx.front, request.uri.path(), query)
}

pub(super) fn answer_health(front: &Front, path: &str, query: &str) -> Option<Answer> {
    let response = front.health.respond(path, query, Instant::now())?;
    let headers = response.headers().collect();
    let body = vec![response.body];
    Some(Answer::of_parts(response.status, headers, body))
}

/// `/metrics` and `/debug/cache`, for whom upstream allows to get that path.
pub(super) async fn own_paths(session: &Session, ctx: &mut RequestContext) -> Option<Answer> {
    let info = ctx.info.as_ref()?;
    let own = matches!(info.path.as_str(), "/metrics" | CACHE_PATH);
    if !own || info.method != Method::GET {
        return None;
    }
    if let Some(refused) = audit::refuse_unauthorized(session, ctx).await {
        return Some(refused);
    }
    let info = ctx.info.as_ref()?;
    answer_unasked(&ctx.front, &info.path, &ctx.query)
}

/// The same, for whom need not be asked.
pub(super) fn answer_unasked(front: &Front, path: &str, query: &Query) -> Option<Answer> {
    match path {
        "/metrics" => Some(answer_metrics(front)),
        CACHE_PATH => Some(debug::answer(front, query, Instant::now())),
        _ => None,
    }
}

fn answer_metrics(front: &Front) -> Answer {
    front.observe_cache();
    match front.metrics.encode() {
        Ok(text) => Answer::new(StatusCode::OK, CONTENT_TYPE, vec![text]),
        Err(error) => Answer::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            vec![format!("{error}\n").into()],
        ),
    }
}
