//! The paths that apifront answers about itself: health, metrics, the cache's
//! state, the status page.

use std::time::Instant;

use http::{Method, StatusCode};
use kubernetes_wire::api::Query;
use pingora_http::RequestHeader;

use super::debug_cache::{self, CACHE_PATH};
use super::debug_flow;
use super::debug_shadow::{self, SHADOW_PATH};
use super::refusal;
use super::respond::Answer;
use super::status;
use crate::metrics::CONTENT_TYPE;
use crate::server::stage::PendingGrant;
use crate::server::state::generation::Generation;

const METRICS_PATH: &str = "/metrics";

/// The paths that need a grant. Of them an API server has `/metrics` and the dumps
/// of its own flow control, which are hidden.
const OWN_PATHS: [&str; 8] = [
    METRICS_PATH,
    CACHE_PATH,
    SHADOW_PATH,
    debug_flow::LEVELS_PATH,
    debug_flow::QUEUES_PATH,
    debug_flow::REQUESTS_PATH,
    status::PAGE_PATH,
    status::DATA_PATH,
];

/// Answers `/livez`, `/readyz`, `/healthz` and their checks, for every caller.
pub(in crate::server) fn health(
    generation: &Generation,
    request: &RequestHeader,
) -> Option<Answer> {
    let uri = &request.uri;
    answer_health(generation, uri.path(), uri.query().unwrap_or_default())
}

pub(in crate::server) fn answer_health(
    generation: &Generation,
    path: &str,
    query: &str,
) -> Option<Answer> {
    let health = &generation.health;
    if !health.has(path) {
        // No clock is read for other requests.
        return None;
    }
    let response = health.respond(path, query, Instant::now())?;
    let headers = response.headers().collect();
    let body = vec![response.body];
    Some(Answer::of_parts(response.status, headers, body))
}

/// Answers [`OWN_PATHS`], for callers whom upstream allows to get that path.
pub(in crate::server) async fn own_paths(
    request: &RequestHeader,
    grant: &mut PendingGrant<'_>,
) -> Option<Answer> {
    let info = grant.identified().info();
    if !OWN_PATHS.contains(&info.path.as_str()) || info.method != Method::GET {
        return None;
    }
    match refusal::unless_granted(request, grant).await {
        Ok(granted) => answer_unasked(granted.generation(), &granted.info().path, granted.query()),
        Err(refused) => refused,
    }
}

/// Answers [`OWN_PATHS`] without asking for a grant.
pub(in crate::server) fn answer_unasked(
    generation: &Generation,
    path: &str,
    query: &Query,
) -> Option<Answer> {
    match path {
        METRICS_PATH => Some(answer_metrics(generation)),
        CACHE_PATH => Some(debug_cache::answer(generation, query, Instant::now())),
        SHADOW_PATH => Some(debug_shadow::answer(generation, Instant::now())),
        debug_flow::LEVELS_PATH | debug_flow::QUEUES_PATH | debug_flow::REQUESTS_PATH => {
            Some(debug_flow::answer(generation, path, query))
        }
        status::PAGE_PATH => Some(status::page()),
        status::DATA_PATH => Some(status::data(generation, query, Instant::now())),
        _ => None,
    }
}

fn answer_metrics(generation: &Generation) -> Answer {
    generation.observe_cache();
    match generation.metrics.encode() {
        Ok(text) => Answer::new(StatusCode::OK, CONTENT_TYPE, vec![text]),
        Err(error) => Answer::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            vec![format!("{error}\n").into()],
        ),
    }
}
