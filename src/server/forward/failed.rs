//! Answers requests that pingora could not forward.

use http::StatusCode;
use kubernetes_wire::api::{Query, Reason, Status};
use pingora_core::{Error, ErrorSource, ErrorType};

use super::attempts::is_read;
use super::{AnswerRefusal, aggregate, switched, unknown_outcome};
use crate::server::exchange::Exchange;
use crate::server::listener::slow_client;
use crate::server::reply::answer::Answer;
use crate::server::reply::{refusal, send};
use crate::server::stage::access_log::Finished;
use crate::server::stage::context::RequestContext;
use crate::server::stage::seats;

/// The code that tells pingora that no answer was sent here.
const NO_ANSWER: u16 = 0;

/// The error types of refused answers, which tell them from other errors.
const SWITCHED: ErrorType = ErrorType::Custom("unasked switch of protocols");
const REDIRECT: ErrorType = ErrorType::Custom("redirect of a backend");

impl From<AnswerRefusal> for Box<Error> {
    fn from(refusal: AnswerRefusal) -> Self {
        match refusal {
            AnswerRefusal::Switched => Error::explain(SWITCHED, "it switched protocols unasked"),
            AnswerRefusal::Redirect => Error::explain(REDIRECT, aggregate::REDIRECTED),
        }
    }
}

/// Answers a request that could not be forwarded. Returns the status of the answer,
/// or 0 if there is none.
pub(in crate::server) async fn answer(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    error: &Error,
) -> u16 {
    if let Some(forward) = &ctx.forward
        && let Some(endpoint) = forward.tried.last()
    {
        endpoint.forward.gave_up();
        if error.esource() == &ErrorSource::Downstream {
            seats::give_back_later(&mut ctx.guards.in_flight);
        }
    }
    if exchange.is_answered() {
        let forwarded = ctx.forward.as_ref().is_some_and(|f| f.asked.is_some());
        if forwarded && error.etype() == &ErrorType::WriteTimedout {
            ctx.generation()
                .flow
                .too_slow(slow_client::FORWARDED_ANSWER);
            Finished::new(exchange.request(), ctx).aborted();
        }
        match error.esource() {
            // Clients may leave at any time. This must not fill the log.
            ErrorSource::Downstream => tracing::debug!(%error, "client left its answer"),
            _ => tracing::warn!(%error, "answer broke off"),
        }
        return NO_ANSWER;
    }
    let status = match error.esource() {
        ErrorSource::Downstream => {
            tracing::debug!(%error, "client went away");
            return NO_ANSWER;
        }
        _ if ctx.is_routed() => {
            tracing::warn!(%error, "request could not be forwarded to a backend");
            return say(exchange, ctx, of_backend(error)).await;
        }
        _ if is_outcome_unknown(ctx) && !is_read(&exchange.request().method) => unknown_outcome(),
        _ => status(error),
    };
    tracing::warn!(%error, code = status.code, "request could not be forwarded");
    let nothing = Query::default();
    let query = ctx.query().unwrap_or(&nothing);
    let answer = Answer::from_status(&status, &exchange.request().headers, query);
    say(exchange, ctx, answer).await
}

fn is_outcome_unknown(ctx: &RequestContext) -> bool {
    let forward = ctx.forward.as_ref();
    forward.is_some_and(|forward| forward.outcome_unknown)
}

async fn say(exchange: &mut Exchange<'_>, ctx: &mut RequestContext, answer: Answer) -> u16 {
    exchange.close_http1_after();
    let answer = answer.out_of(ctx.reply.cache);
    if let Err(error) = send::send(exchange, answer, ctx).await {
        tracing::debug!(%error, "error answer not sent");
    }
    ctx.reply.code
}

/// Returns the answer of an aggregator whose backend cannot be reached.
fn of_backend(error: &Error) -> Answer {
    if error.etype() == &REDIRECT {
        return aggregate::redirected();
    }
    let cause = error.root_cause();
    aggregate::unreachable(&format!("error trying to reach service: {cause}"))
}

fn status(error: &Error) -> Status {
    match error.etype() {
        ErrorType::InvalidHTTPHeader if error.esource() != &ErrorSource::Upstream => {
            Status::bad_request("the request cannot be forwarded: malformed header")
        }
        ErrorType::HTTPStatus(code) => {
            let text = StatusCode::from_u16(*code)
                .ok()
                .and_then(|c| c.canonical_reason())
                .unwrap_or("request failed");
            Status::failure(*code, Reason::Unknown, text)
        }
        &SWITCHED => switched(),
        ErrorType::InternalError => Status::internal_error("the request could not be forwarded"),
        _ => refusal::unreachable(),
    }
}
