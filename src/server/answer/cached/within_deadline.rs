//! A read that is not answered within its own time limit (`timeout=`) is answered with 504.

use apifront_watch_cache::read::BypassReason;
use http::HeaderMap;
use kubernetes_wire::api::{Reason, Status};
use kubernetes_wire::request::Deadline;

use super::degraded::Degraded;
use super::pinned::Pinned;
use super::plan::Plan;
use super::served::Served;
use crate::flow::Admitted;
use crate::server::stage::Granted;

/// Serves a read until its deadline, and a watch, which has none.
pub(super) async fn serve(
    granted: &Granted,
    headers: &HeaderMap,
    plan: Plan,
    pinned: Option<&mut Pinned>,
    seats: Option<&mut Admitted>,
) -> (Result<Served, BypassReason>, Option<Degraded>) {
    let mut degraded = None;
    let within = match (granted.deadline(), &plan) {
        (Deadline::Within(within), Plan::Get(_) | Plan::List(..)) if pinned.is_none() => within,
        _ => {
            let served = super::serve(granted, headers, plan, pinned, seats, &mut degraded).await;
            return (served, degraded);
        }
    };
    let left = within.saturating_sub(granted.started().elapsed());
    let serving = super::serve(granted, headers, plan, None, seats, &mut degraded);
    let served = match tokio::time::timeout(left, serving).await {
        Ok(served) => return (served, degraded),
        Err(_) => Ok(Served::TimedOut(timed_out())),
    };
    (served, None)
}

/// Returns the 504 of kube-apiserver.
pub(super) fn timed_out() -> Status {
    let message = "Timeout: request did not complete within the allotted timeout";
    Status::failure(504, Reason::Timeout, message)
}
