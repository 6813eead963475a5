//! A read that is not answered within its own time limit (`timeout=`) is answered with 504.

use std::time::Duration;

use apifront_watch_cache::read::BypassReason;
use http::HeaderMap;
use kubernetes_wire::api::Status;
use kubernetes_wire::request::Deadline;

use super::degraded::Degraded;
use super::pinned::Pinned;
use super::plan::Plan;
use super::served::Served;
use crate::flow::Admitted;
use crate::server::stage::{Granted, Identified};

/// Serves a read until its deadline, and a watch, which has none.
pub(super) async fn serve(
    granted: &Granted,
    headers: &HeaderMap,
    plan: Plan,
    pinned: Option<&mut Pinned>,
    seats: Option<&mut Admitted>,
) -> (Result<Served, BypassReason>, Option<Degraded>) {
    let left = match pinned {
        None => time_left(granted, &plan),
        Some(_) => None,
    };
    let mut degraded = None;
    let serving = super::serve(granted, headers, plan, pinned, seats, &mut degraded);
    match or_timeout(left, serving).await {
        Ok(served) => (served, degraded),
        Err(timeout) => (Ok(Served::TimedOut(timeout)), None),
    }
}

/// Returns how long the caller still waits for an answer, if he said that.
pub(super) fn time_left(identified: &Identified, plan: &Plan) -> Option<Duration> {
    match (identified.deadline(), plan) {
        (Deadline::Within(within), Plan::Get(_) | Plan::List(..)) => {
            Some(within.saturating_sub(identified.started().elapsed()))
        }
        _ => None,
    }
}

/// Waits for an answer, or returns the 504 of kube-apiserver when no time is left.
pub(super) async fn or_timeout<T>(
    left: Option<Duration>,
    answer: impl Future<Output = T>,
) -> Result<T, Status> {
    let Some(left) = left else {
        return Ok(answer.await);
    };
    let answered = tokio::time::timeout(left, answer).await;
    answered.map_err(|_| Status::timeout())
}
