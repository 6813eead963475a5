//! Answering a read from the cache, or saying why not.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::UPGRADE;
use http::{HeaderMap, Method, StatusCode};
use rand::Rng;

use super::front::{Front, Gate};
use super::respond::Answer;
use crate::api::{ListOptions, Query, Status, UserInfo};
use crate::config::Consistency;
use crate::negotiation::{
    self, IncludeObject, MediaType, Negotiation, Offer, Representation, Transform,
};
use crate::read::{self, BypassReason, Freshness, Shape, WatchPlan};
use crate::representation::table::TableOptions;
use crate::representation::{Form, pretty};
use crate::request::RequestInfo;
use crate::store::{Filter, Store};
use crate::watch::{Encoding, JsonFrames, TransformedFrames, Watch, WatchOptions};

/// How long a watch waits for its resource to be listed for the first time,
/// before it is forwarded. kube-apiserver's cache waits 3 s.
const WATCH_WAITS: Duration = Duration::from_secs(2);

pub(super) enum Outcome {
    Answer(Answer),
    Watch(Box<Watch>, Vec<String>),
    /// 403 and the like.
    Refused(Status, Vec<String>),
    /// Upstream answers.
    Bypass(BypassReason),
    /// The cache has no part in such requests.
    NotAsked,
}

enum Plan {
    Get(Freshness),
    List(ListOptions, read::ListPlan),
    Watch(ListOptions, WatchPlan),
}

impl Plan {
    fn freshness(&self) -> Freshness {
        match self {
            Self::Get(freshness) => *freshness,
            Self::List(_, plan) => plan.freshness,
            Self::Watch(_, WatchPlan::InitialEvents(freshness)) => *freshness,
            Self::Watch(_, WatchPlan::From(_) | WatchPlan::FromNow) => Freshness::Any,
        }
    }
}

/// Decides from cheap to dear: options, consistency mode, authorization, and
/// only then the cache itself.
pub(super) async fn answer(
    front: &Front,
    info: &RequestInfo,
    query: &Query,
    headers: &HeaderMap,
    user: Option<&UserInfo>,
) -> Outcome {
    if info.method != Method::GET || !info.is_resource_request || !info.subresource.is_empty() {
        return Outcome::NotAsked;
    }
    let plan = match plan(front, info, query, headers) {
        Ok(Some(plan)) => plan,
        Ok(None) => return Outcome::NotAsked,
        Err(reason) => return Outcome::Bypass(reason),
    };
    if let (Some(user), Gate::Delegated(gate)) = (user, &front.gate)
        && let Err(status) = gate.authorizer.authorize(user, &info.attributes()).await
    {
        return Outcome::Refused(status, Vec::new());
    }
    match serve(front, info, query, headers, plan).await {
        Ok(outcome) => outcome,
        Err(reason) => Outcome::Bypass(reason),
    }
}

fn plan(
    front: &Front,
    info: &RequestInfo,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Option<Plan>, BypassReason> {
    let verb = info.verb.as_str();
    if !matches!(verb, "get" | "list" | "watch") || info.parts.len() > 2 {
        return Ok(None);
    }
    if !front.config.cache.caches(&info.gvr) {
        return Err(BypassReason::Excluded);
    }
    if info.is_verb_via_path() || headers.contains_key(UPGRADE) {
        return Err(BypassReason::WatchProtocol);
    }
    if !info.is_canonical() {
        return Err(BypassReason::UnusualRequest);
    }
    let options = || ListOptions::from_query(query).map_err(|_| BypassReason::InvalidOptions);
    let plan = match verb {
        "get" => Plan::Get(read::get(query)?),
        "list" => {
            if query.contains("timeout") {
                return Err(BypassReason::UnusualRequest);
            }
            let options = options()?;
            let plan = read::list(&options)?;
            Plan::List(options, plan)
        }
        _ => {
            let options = options()?;
            let plan = read::watch(&options)?;
            Plan::Watch(options, plan)
        }
    };
    let strict = front.config.cache.consistency == Consistency::Strict;
    if strict && plan.freshness() == Freshness::MostRecent {
        return Err(BypassReason::MostRecent);
    }
    Ok(Some(plan))
}

async fn serve(
    front: &Front,
    info: &RequestInfo,
    query: &Query,
    headers: &HeaderMap,
    plan: Plan,
) -> Result<Outcome, BypassReason> {
    let selection = front.config.as_ref();
    let entry = match plan {
        // A forwarded watch stays upstream for as long as it lasts.
        Plan::Watch(..) => {
            front
                .cache
                .lookup_within(&info.gvr, selection, WATCH_WAITS)
                .await?
        }
        Plan::Get(_) | Plan::List(..) => front.cache.lookup(&info.gvr, selection)?,
    };
    let store = entry.store().ok_or(BypassReason::Filling)?;
    let namespace = scope(info, &store)?;
    let (representation, shape) = representation(headers, query, &store, &plan)?;
    read::ensure(
        plan.freshness(),
        &front.cache,
        &entry,
        &store,
        front.config.cache.consistency,
        front.config.cache.max_staleness,
    )
    .await?;
    let warnings = store.presentation().warnings.clone();
    match plan {
        Plan::Get(_) => {
            let found = get(info, namespace, &store, &shape)?;
            Ok(match found {
                Some(body) => json(vec![body], representation, headers, &warnings).await,
                None => {
                    let resource = info.gvr.group_resource();
                    Outcome::Refused(Status::not_found(&resource, &info.name), warnings)
                }
            })
        }
        Plan::List(options, plan) => {
            let body = list(namespace, options, plan, &store, &shape)?;
            Ok(json(body, representation, headers, &warnings).await)
        }
        Plan::Watch(options, plan) => watch(
            namespace,
            options,
            plan,
            store,
            shape,
            front.config.serving.min_request_timeout,
        )
        .map(|watch| Outcome::Watch(Box::new(watch), warnings)),
    }
}

/// The namespace of the stored objects the path is about. A path that does not
/// fit the resource's scope is upstream's to refuse.
fn scope<'i>(info: &'i RequestInfo, store: &Store) -> Result<&'i str, BypassReason> {
    let is_namespaces = info.gvr.resource == "namespaces" && info.gvr.group.is_empty();
    let namespace = if is_namespaces {
        ""
    } else {
        info.namespace.as_str()
    };
    let one = info.verb == "get";
    let fits = match (store.resource.namespaced, namespace.is_empty()) {
        (true, false) | (false, true) => true,
        (true, true) => !one,
        (false, false) => false,
    };
    fits.then_some(namespace)
        .ok_or(BypassReason::UnusualRequest)
}

fn representation(
    headers: &HeaderMap,
    query: &Query,
    store: &Store,
    plan: &Plan,
) -> Result<(Representation, Shape), BypassReason> {
    let offer = match store.resource.envelope.form {
        Form::Struct => Offer::BUILT_IN,
        Form::Map => Offer::CUSTOM_RESOURCE,
    };
    let negotiated = match plan {
        Plan::Get(_) | Plan::List(..) => negotiation::negotiate(headers, query, offer),
        Plan::Watch(..) => negotiation::negotiate_watch(headers, offer),
    };
    let accepted = match negotiated {
        Negotiation::Accepted(accepted) if accepted.media_type == MediaType::Json => accepted,
        Negotiation::Accepted(_) | Negotiation::NotAcceptable | Negotiation::Unknown => {
            return Err(BypassReason::Representation);
        }
    };
    Ok((accepted, shape(accepted, query, store, plan)?))
}

/// A list cannot be one PartialObjectMetadata, nor an object a list of them:
/// the error is upstream's to word.
fn shape(
    accepted: Representation,
    query: &Query,
    store: &Store,
    plan: &Plan,
) -> Result<Shape, BypassReason> {
    if !accepted.transform.suits(matches!(plan, Plan::List(..))) {
        return Err(BypassReason::Representation);
    }
    match accepted.transform {
        Transform::None => Ok(Shape::Whole),
        Transform::Table(version) => {
            let include = IncludeObject::from_query(query);
            let options = TableOptions {
                version,
                include: include.map_err(|_| BypassReason::InvalidOptions)?,
            };
            let printer = store.presentation().printer.clone();
            let printer = printer.ok_or(BypassReason::Representation)?;
            Ok(Shape::Table(printer, options))
        }
        Transform::PartialObjectMetadata(version)
        | Transform::PartialObjectMetadataList(version) => Ok(Shape::Partial(version)),
    }
}

/// A body on its way out: indented and compressed where the client wants that.
async fn json(
    body: Vec<Bytes>,
    representation: Representation,
    headers: &HeaderMap,
    warnings: &[String],
) -> Outcome {
    let body = if representation.pretty {
        vec![pretty::indent(&body.concat()).into()]
    } else {
        body
    };
    let mut answer = Answer::new(StatusCode::OK, "application/json", body);
    answer.warn(warnings);
    if negotiation::accepts_gzip(headers) {
        answer.compress().await;
    }
    Outcome::Answer(answer)
}

fn get(
    info: &RequestInfo,
    namespace: &str,
    store: &Store,
    shape: &Shape,
) -> Result<Option<Bytes>, BypassReason> {
    store
        .snapshot()
        .get(namespace, &info.name)
        .map(|object| read::get_body(&store.resource, object, shape))
        .transpose()
}

fn filter(namespace: &str, options: ListOptions, store: &Store) -> Result<Filter, BypassReason> {
    Filter::new(
        namespace,
        options.label_selector,
        options.field_selector,
        &store.resource,
    )
    .map_err(|_| BypassReason::FieldSelector)
}

fn list(
    namespace: &str,
    options: ListOptions,
    plan: read::ListPlan,
    store: &Store,
    shape: &Shape,
) -> Result<Vec<Bytes>, BypassReason> {
    let filter = filter(namespace, options, store)?;
    let snapshot = store.snapshot();
    let (objects, cut) = read::select(&snapshot, &filter, plan.limit);
    if cut {
        return Err(BypassReason::Chunked);
    }
    read::list_body(&store.resource, snapshot.resource_version, &objects, shape)
}

fn watch(
    namespace: &str,
    options: ListOptions,
    plan: WatchPlan,
    store: Arc<Store>,
    shape: Shape,
    min_request_timeout: Duration,
) -> Result<Watch, BypassReason> {
    if options.allow_watch_bookmarks && store.resource.bookmark.get().is_none() {
        return Err(BypassReason::NoBookmark);
    }
    let lasts = match options.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        // Spread, so that watches opened together do not end together.
        _ => min_request_timeout.mul_f64(1.0 + rand::rng().random_range(0.0..1.0)),
    };
    let bookmarks = options.allow_watch_bookmarks;
    let watch_options = WatchOptions {
        filter: filter(namespace, options, &store)?,
        bookmarks,
        lasts,
    };
    let encoding: Box<dyn Encoding> = match shape {
        Shape::Whole => Box::new(JsonFrames(store.clone())),
        Shape::Table(printer, options) => {
            Box::new(TransformedFrames::table(store.clone(), printer, options))
        }
        Shape::Partial(version) => Box::new(TransformedFrames::partial(store.clone(), version)),
    };
    let version = match plan {
        WatchPlan::From(version) => version,
        WatchPlan::FromNow => store.progress().resource_version,
        WatchPlan::InitialEvents(_) => {
            let snapshot = store.snapshot();
            let watch = Watch::with_initial_events(store, &snapshot, watch_options, encoding);
            return Ok(watch);
        }
    };
    Watch::from_version(store, version, watch_options, encoding)
        .map_err(|_| BypassReason::HistoryTooShort)
}
