//! Answers the paths that are about apifront itself: health, metrics, the cache's
//! state, the status page. Each path has two audiences: callers with a grant for it,
//! and anybody who reaches the port without authentication.

mod debug_cache;
mod debug_flow;
mod debug_shadow;
mod nameless;
pub(in crate::server) mod observability;
mod open_answer;
mod status;
mod status_report;
mod status_resources;
mod status_shadow;
mod status_talkers;

use std::sync::Arc;
use std::time::Instant;

use debug_flow::Dump;
use http::{Method, request};
use kubernetes_wire::api::Query;
use open_answer::OpenAnswer;

use crate::server::reply::answer::Answer;
use crate::server::reply::refusal;
use crate::server::stage::{Granted, PendingGrant};
use crate::server::state::generation::Generation;

/// The paths that need a grant. An API server also has `/metrics` and the dumps of
/// its own flow control, which are hidden by these.
#[derive(Clone, Copy)]
enum OwnPath {
    Metrics,
    Cache,
    Shadow,
    Flow(Dump),
    StatusPage,
    StatusData,
}

impl OwnPath {
    fn parse(path: &str) -> Option<Self> {
        Some(match path {
            "/metrics" => Self::Metrics,
            "/debug/cache" => Self::Cache,
            "/debug/shadow" => Self::Shadow,
            "/debug/api_priority_and_fairness/dump_priority_levels" => Self::Flow(Dump::Levels),
            "/debug/api_priority_and_fairness/dump_queues" => Self::Flow(Dump::Queues),
            "/debug/api_priority_and_fairness/dump_requests" => Self::Flow(Dump::Requests),
            "/status" => Self::StatusPage,
            "/status.json" => Self::StatusData,
            _ => return None,
        })
    }
}

/// Answers `/livez`, `/readyz`, `/healthz` and their checks, for every caller.
pub(in crate::server) fn health(
    generation: &Generation,
    request: &request::Parts,
) -> Option<Answer> {
    let uri = &request.uri;
    let answer = open_health(generation, uri.path(), uri.query().unwrap_or_default());
    answer.map(OpenAnswer::into_answer)
}

fn open_health(generation: &Generation, path: &str, query: &str) -> Option<OpenAnswer> {
    let health = &generation.health;
    if !health.has(path) {
        // Other requests do not need the time.
        return None;
    }
    let response = health.respond(path, query, Instant::now())?;
    Some(OpenAnswer::health(response))
}

/// Answers [`OwnPath`], for callers whom upstream allows to get that path.
pub(in crate::server) async fn own_paths(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Option<Answer> {
    let info = grant.identified().info();
    if OwnPath::parse(&info.path).is_none() || info.method != Method::GET {
        return None;
    }
    match refusal::unless_granted(request, grant).await {
        Ok(granted) => answer_granted(&granted),
        Err(refused) => refused,
    }
}

fn answer_granted(granted: &Arc<Granted>) -> Option<Answer> {
    let now = Instant::now();
    Some(match OwnPath::parse(&granted.info().path)? {
        OwnPath::Metrics => OpenAnswer::metrics(granted.generation()).into_answer(),
        OwnPath::Cache => debug_cache::answer(granted, now),
        OwnPath::Shadow => debug_shadow::answer(granted, now),
        OwnPath::Flow(dump) => debug_flow::answer(granted, dump),
        OwnPath::StatusPage => status::page(),
        OwnPath::StatusData => status::data(granted, now),
    })
}

/// Answers the health paths and [`OwnPath`] on the port without authentication.
pub(in crate::server) fn open(
    generation: &Generation,
    path: &str,
    query: &str,
) -> Option<OpenAnswer> {
    if let Some(health) = open_health(generation, path, query) {
        return Some(health);
    }
    let now = Instant::now();
    Some(match OwnPath::parse(path)? {
        OwnPath::Metrics => OpenAnswer::metrics(generation),
        OwnPath::Cache => debug_cache::open(generation, &Query::parse(query), now),
        OwnPath::Shadow => debug_shadow::open(generation, now),
        OwnPath::Flow(_) => debug_flow::open(generation),
        OwnPath::StatusPage => OpenAnswer::status_page(),
        OwnPath::StatusData => status::open_data(generation, now),
    })
}
