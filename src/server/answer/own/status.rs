//! The answers to `/status`, a page for people, and to `/status.json`, its data. The
//! page is the same for every audience, and shows what its data hold.

use std::time::Instant;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY};
use http::{HeaderMap, HeaderValue, StatusCode};
use kubernetes_wire::api::Status;

use super::open_answer::OpenAnswer;
use super::status_report;
use crate::server::reply::answer::Answer;
use crate::server::stage::Granted;
use crate::server::state::generation::Generation;
use crate::status::page;

/// The data may name callers, so no cache may keep them.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

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

/// Returns the data for a caller with a grant. `docs/operations/status-page.md`
/// documents them.
pub(super) fn data(granted: &Granted, now: Instant) -> Answer {
    match serde_json::to_vec(&status_report::report(granted, now)) {
        Ok(mut body) => {
            body.push(b'\n');
            let body = vec![body.into()];
            guarded(Answer::new(StatusCode::OK, "application/json", body))
        }
        Err(error) => {
            let status = Status::internal_error(error);
            Answer::from_status(&status, &HeaderMap::new(), granted.query())
        }
    }
}

/// Returns the data for the port without authentication.
pub(super) fn open_data(generation: &Generation, now: Instant) -> OpenAnswer {
    OpenAnswer::data(&status_report::open_report(generation, now)).guarded()
}

pub(super) fn guarded(answer: Answer) -> Answer {
    let mut answer = answer.without_sniffing();
    answer.headers.insert(CACHE_CONTROL, NO_STORE);
    answer.headers.insert(RESOURCE_POLICY, SAME_ORIGIN);
    answer
}
