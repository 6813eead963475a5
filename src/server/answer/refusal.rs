//! Answers in place of what a caller asked for and may not have.

use std::sync::Arc;

use kubernetes_wire::api::Query;
use pingora_http::RequestHeader;

use super::respond::Answer;
use crate::server::stage::{Granted, Leave, Refused, Ungranted};

/// The answer to a caller who may not go on.
pub(in crate::server) fn of_caller(
    refused: &Refused,
    request: &RequestHeader,
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

/// Asks for a request's grant. The error is the answer in place of what was asked
/// for; it is `None` where upstream has to answer.
pub(in crate::server) async fn unless_granted(
    request: &RequestHeader,
    leave: &mut Leave<'_>,
) -> Result<Arc<Granted>, Option<Answer>> {
    leave.ask().await.map_err(|ungranted| match ungranted {
        Ungranted::Refused(status) => {
            let query = leave.identified().query();
            Some(Answer::from_status(&status, &request.headers, query))
        }
        Ungranted::OnlyUpstream => None,
    })
}
