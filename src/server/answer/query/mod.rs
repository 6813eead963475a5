//! Queries: questions about what is in memory, `query.apifront.dev/v1alpha1`.
//!
//! ```text
//! body ─▶ Query ─▶ Plan ─┐
//!           └─▶ lists ─▶ grants ─▶ Selected ─▶ evaluated aside ─▶ answer
//! ```
//!
//! A query is answered from what lists of the same caller would show: each namespace
//! needs the right to list in it. Nothing of a query is forwarded or stored.

mod accepted;
mod body;
mod evaluate;
mod lists;
mod live;
mod table;

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use accepted::{Accepted, accepted};
use apifront_query::{Answer as Answered, Continue, Invalid, Plan, Query, QueryStatus};
use evaluate::evaluate;
use http::{Method, StatusCode};
use kubernetes_wire::api::status::Cause;
use kubernetes_wire::api::{Reason, Status};
use kubernetes_wire::negotiation::MediaType;
use live::Live;
use serde::Serialize;
use table::Table;

use super::cached::{Selected, Unselected, select};
use super::convert;
use crate::flow::RETRY_AFTER;
use crate::queries::{self, Outcome, Shown};
use crate::server::exchange::{Exchange, Failure};
use crate::server::offload::{OffloadRefusal, OffloadUser};
use crate::server::reply::answer::Answer;
use crate::server::reply::event_stream::Events;
use crate::server::reply::refusal;
use crate::server::stage::context::{CacheResult, RequestContext};
use crate::server::stage::{Identified, NotGranted, PendingGrant};

/// Why a query has no answer.
enum Unanswered {
    Status(Box<Status>),
    Overloaded,
    Failure(Failure),
}

impl From<Status> for Unanswered {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Unselected> for Unanswered {
    fn from(unselected: Unselected) -> Self {
        match unselected {
            Unselected::Status(status) => Self::Status(status),
            Unselected::Overloaded => Self::Overloaded,
        }
    }
}

impl From<OffloadRefusal> for Unanswered {
    fn from(refusal: OffloadRefusal) -> Self {
        match refusal {
            OffloadRefusal::Overloaded => Self::Overloaded,
            OffloadRefusal::Bypass(reason) => Unselected::from(reason).into(),
        }
    }
}

/// The answer to a request for a query.
pub(in crate::server) enum Reply {
    Whole(Answer),
    Live(Events),
}

/// Answers requests for queries. Returns `None` for other requests.
pub(in crate::server) async fn answer(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    identified: &Arc<Identified>,
) -> Result<Option<Reply>, Failure> {
    let generation = identified.generation();
    let info = identified.info();
    if !generation.settings.queries.enabled
        || !info.is_resource_request
        || info.gvr.group != queries::GROUP
        || info.gvr.group_version() != queries::group_version()
        || !generation
            .settings
            .runtime_config
            .is_enabled(&queries::group_version())
    {
        return Ok(None);
    }
    let mut grant = ctx.pending_grant(identified.clone());
    let began = Instant::now();
    let answered = respond(exchange, &mut grant).await;
    let metrics = &generation.queries;
    let (reply, outcome) = match answered {
        Ok(reply) => (reply, Outcome::Answered),
        Err(Unanswered::Failure(failure)) => return Err(failure),
        Err(Unanswered::Overloaded) => {
            let answer = Answer::too_many_requests(RETRY_AFTER);
            (Reply::Whole(answer), Outcome::Refused)
        }
        Err(Unanswered::Status(status)) => {
            let headers = &exchange.request().headers;
            let answer = Answer::from_status(&status, headers, identified.query());
            (Reply::Whole(answer), Outcome::Refused)
        }
    };
    metrics.ended(outcome, began.elapsed());
    Ok(Some(reply))
}

async fn respond(
    exchange: &mut Exchange<'_>,
    grant: &mut PendingGrant<'_>,
) -> Result<Reply, Unanswered> {
    let identified = grant.identified().clone();
    let info = identified.info();
    // Who may not ask learns nothing else.
    let asked = identified
        .unless_gone(pin!(grant.ask()), exchange.client_gone())
        .await?;
    let granted = asked.map_err(|ungranted| match ungranted {
        NotGranted::Refused(status) => status,
        NotGranted::OnlyUpstream => Status::bad_request("only upstream knows this user"),
    })?;
    if info.gvr != queries::queries() || info.parts.len() > 1 || !info.is_canonical() {
        return Err(refusal::no_such_resource().into());
    }
    if info.method != Method::POST || !info.namespace.is_empty() {
        return Err(method_not_allowed().into());
    }
    let is_live = identified.query().truthy("watch");
    let accepted = accepted(exchange.request(), &identified, is_live)?;
    let (mut query, warnings) = body::read(exchange, grant).await?;
    let by = OffloadUser::new(&granted);
    let lists = lists::of_query(&query.spec, &identified)?;
    if is_live {
        live::check(&query.spec)?;
    }
    let continued = lists.continued.as_ref().map(|token| token.offset);
    let spec = query.spec.clone();
    let plan = by.run(move || Plan::new(&spec, continued)).await;
    let plan = match plan.map_err(OffloadRefusal::from)? {
        Some(Ok(Ok(plan))) => Arc::new(plan),
        Some(Ok(Err(wrong))) => return Err(invalid(wrong).into()),
        Some(Err(_)) | None => {
            return Err(Status::internal_error("the query could not be parsed").into());
        }
    };
    let selected = identified
        .unless_gone(pin!(select(lists.lists)), exchange.client_gone())
        .await?;
    let selected = Arc::new(selected?);
    let cache = CacheResult::Hit(selected.hit);
    let held = plan.held_bytes(selected.snapshot.len());
    let held = by.hold(held).await.map_err(OffloadRefusal::from)?;
    let shown = Arc::new(Shown::new(plan.clone(), &selected.store));
    let evaluated = async {
        if is_live {
            let (live, answered) = Live::begin(&identified, &plan, &shown, &selected, by).await?;
            return Ok((Some(live), answered));
        }
        let answered = evaluate(&plan, &shown, &selected, &identified, by).await?;
        Ok::<_, Unanswered>((None, answered))
    };
    let (live, answered) = tokio::select! {
        biased;
        evaluated = evaluated => evaluated?,
        () = exchange.client_gone() => return Err(Failure::client_gone().into()),
    };
    drop(held);
    identified.generation().queries.evaluated(answered.spent);
    let status = status(&query, &plan, &shown, &selected, answered, is_live);
    let warnings = warnings.into_iter().chain(selected.warnings.clone());
    let table = accepted
        .table
        .map(|version| Table::new(&status, plan.offset(), version));
    query.status = Some(status);
    if let Some(live) = live {
        return Ok(Reply::Live(Events {
            lines: live.events(&query),
            warnings: warnings.collect(),
            cache,
        }));
    }
    let mut answer = match table {
        Some(table) => encode(&table, accepted, by).await?,
        None => encode(&query, accepted, by).await?,
    };
    answer.warn(&warnings.collect::<Vec<_>>());
    answer.compress_for(&exchange.request().headers, by).await?;
    Ok(Reply::Whole(answer.out_of(cache)))
}

/// Returns the status of an answered query. A live one has no next page.
fn status(
    query: &Query,
    plan: &Plan,
    shown: &Shown,
    selected: &Selected,
    answered: Answered,
    is_live: bool,
) -> QueryStatus {
    let rows = answered.rows.len();
    let next = u64::try_from(plan.offset().saturating_add(rows)).unwrap_or(u64::MAX);
    let version = selected.snapshot.resource_version;
    let continue_token = match next < answered.total && rows > 0 && !is_live {
        true => {
            selected.retain();
            Continue::new(&query.spec, version, next).to_token()
        }
        false => String::new(),
    };
    QueryStatus {
        resource_version: version.to_string(),
        total: answered.total,
        columns: shown.columns(),
        rows: answered.rows,
        counts: answered.counts,
        changes: Vec::new(),
        continue_token,
        warnings: answered.warnings,
    }
}

async fn encode(
    answer: &impl Serialize,
    accepted: Accepted,
    by: OffloadUser<'_>,
) -> Result<Answer, Unanswered> {
    let json = serde_json::to_vec(answer).map_err(Status::internal_error)?;
    let json = vec![json.into()];
    let (body, held) = match (accepted.media_type, accepted.is_indented) {
        (MediaType::Yaml, _) => convert::to_yaml(json, by).await?,
        (_, true) => convert::indented(json, by).await?,
        (_, false) => (json, Default::default()),
    };
    let content_type = accepted.media_type.as_str();
    Ok(Answer::new(StatusCode::CREATED, content_type, body).holding(held))
}

/// Returns the 405 of kube-apiserver for a resource that is only created.
fn method_not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    let mut status = Status::failure(405, Reason::MethodNotAllowed, message);
    status.details = Some(Box::default());
    status
}

/// Returns the 422 of kube-apiserver's validation.
fn invalid(wrong: Vec<Invalid>) -> Status {
    let cause = |wrong: Invalid| match wrong.is_missing {
        true => Cause::new("FieldValueRequired", &wrong.field, "Required value"),
        false => {
            let message = format!("Invalid value: {:?}: {}", wrong.value, wrong.why);
            Cause::new("FieldValueInvalid", &wrong.field, message)
        }
    };
    Status::invalid(&queries::kind(), "", wrong.into_iter().map(cause).collect())
}
