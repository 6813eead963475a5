//! The answers to `/status`, a page for people, and to `/status.json`, its data.

use std::time::Instant;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY};
use http::{HeaderMap, HeaderValue, StatusCode};
use kubernetes_wire::api::{Query, Status};

use super::respond::Answer;
use super::status_report;
use crate::server::state::generation::Generation;
use crate::status::page;

pub(super) const PAGE_PATH: &str = "/status";
pub(super) const DATA_PATH: &str = "/status.json";

/// Both name callers, so no cache may keep them.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Returns the page. It holds no data.
pub(super) fn page() -> Answer {
    let page = page::page();
    let body = vec![page.html.clone()];
    let mut answer = guarded(Answer::new(
        StatusCode::OK,
        "text/html; charset=utf-8",
        body,
    ));
    if let Ok(policy) = HeaderValue::from_str(&page.policy) {
        answer.headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    answer.headers.insert(REFERRER_POLICY, NO_REFERRER);
    answer.headers.insert(OPENER_POLICY, SAME_ORIGIN);
    answer
}

/// Returns the data, which `docs/operations.md` documents.
pub(super) fn data(generation: &Generation, query: &Query, now: Instant) -> Answer {
    match serde_json::to_vec(&status_report::report(generation, now)) {
        Ok(mut body) => {
            body.push(b'\n');
            let body = vec![body.into()];
            guarded(Answer::new(StatusCode::OK, "application/json", body))
        }
        Err(error) => {
            let status = Status::internal_error(error);
            Answer::from_status(&status, &HeaderMap::new(), query)
        }
    }
}

fn guarded(answer: Answer) -> Answer {
    let mut answer = answer.without_sniffing();
    answer.headers.insert(CACHE_CONTROL, NO_STORE);
    answer.headers.insert(RESOURCE_POLICY, SAME_ORIGIN);
    answer
}
