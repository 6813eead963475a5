//! The answers to callers whose request is refused.

use http::request;
use std::sync::Arc;

use apifront_upstream::cdn_loop;
use kubernetes_wire::api::status::Details;
use kubernetes_wire::api::{Query, Reason, Status};

use super::answer::Answer;
use crate::server::stage::{Granted, NotGranted, PendingGrant, Refused};

/// Returns the answer to a caller who was refused at authentication or
/// impersonation.
pub(in crate::server) fn of_caller(
    refused: &Refused,
    request: &request::Parts,
    query: &Query,
) -> Answer {
    let answer = Answer::from_status(refused.status(), &request.headers, query);
    match refused {
        Refused::Later {
            by_impersonation: true,
            ..
        } => answer.without_sniffing(),
        Refused::Caller(_) | Refused::Later { .. } => answer,
    }
}

/// Returns the answer to a request that has passed this process before.
pub(in crate::server) fn of_loop(request: &request::Parts, query: &Query) -> Answer {
    Answer::from_status(&cdn_loop::refusal(), &request.headers, query)
}

pub(in crate::server) fn no_such_resource() -> Status {
    let message = "the server could not find the requested resource";
    let mut status = Status::failure(404, Reason::NotFound, message);
    status.details = Some(Box::new(Details::default()));
    status
}

/// Asks for the grant of a request. The error is the answer that refuses the
/// request, or `None` if upstream must answer.
pub(in crate::server) async fn unless_granted(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Result<Arc<Granted>, Option<Answer>> {
    grant.ask().await.map_err(|ungranted| match ungranted {
        NotGranted::Refused(status) => {
            let query = grant.identified().query();
            Some(Answer::from_status(&status, &request.headers, query))
        }
        NotGranted::OnlyUpstream => None,
    })
}

/// Returns the 503 for a request that had no effect, and may be tried again.
pub(in crate::server) fn unreachable() -> Status {
    Status::service_unavailable("the API server cannot be reached").retry_soon()
}
