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
use crate::negotiation::{self, Negotiation, Offer, Representation, Transform};
use crate::read::{self, BypassReason, Freshness, WatchPlan, encode};
use crate::representation::{Form, pretty};
use crate::request::RequestInfo;
use crate::store::{Filter, Store};
use crate::watch::{Watch, WatchOptions};

pub(super) enum Outcome {
    Answer(Answer),
    Watch(Box<Watch>),
    /// 403 and the like.
    Refused(Status),
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
        return Outcome::Refused(status);
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
    let entry = front.cache.lookup(&info.gvr, front.config.as_ref())?;
    let store = entry.store().ok_or(BypassReason::Filling)?;
    let namespace = scope(info, &store)?;
    let representation = representation(headers, query, &store, &plan)?;
    read::ensure(
        plan.freshness(),
        &front.cache,
        &entry,
        &store,
        front.config.cache.consistency,
        front.config.cache.max_staleness,
    )
    .await?;
    match plan {
        Plan::Get(_) => Ok(get(info, namespace, &store, representation)),
        Plan::List(options, plan) => list(namespace, options, plan, &store, representation),
        Plan::Watch(options, plan) => watch(
            namespace,
            options,
            plan,
            store,
            front.config.serving.min_request_timeout,
        ),
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
) -> Result<Representation, BypassReason> {
    let offer = match store.resource.envelope.form {
        Form::Struct => Offer::BUILT_IN,
        Form::Map => Offer::CUSTOM_RESOURCE,
    };
    let negotiated = match plan {
        Plan::Get(_) | Plan::List(..) => negotiation::negotiate(headers, query, offer),
        Plan::Watch(..) => negotiation::negotiate_watch(headers, offer),
    };
    match negotiated {
        Negotiation::Accepted(accepted)
            if accepted.media_type == negotiation::MediaType::Json
                && accepted.transform == Transform::None =>
        {
            Ok(accepted)
        }
        Negotiation::Accepted(_) | Negotiation::NotAcceptable | Negotiation::Unknown => {
            Err(BypassReason::Representation)
        }
    }
}

fn json(body: Vec<Bytes>, representation: Representation) -> Outcome {
    let body = if representation.pretty {
        vec![pretty::indent(&body.concat()).into()]
    } else {
        body
    };
    Outcome::Answer(Answer::new(StatusCode::OK, "application/json", body))
}

fn get(info: &RequestInfo, namespace: &str, store: &Store, as_: Representation) -> Outcome {
    match store.snapshot().get(namespace, &info.name) {
        Some(object) => json(vec![encode::get(&store.resource, object)], as_),
        None => Outcome::Refused(Status::not_found(&info.gvr.group_resource(), &info.name)),
    }
}

fn filter(namespace: &str, options: ListOptions, store: &Store) -> Result<Filter, BypassReason> {
    Filter::new(
        namespace,
        options.label_selector,
        options.field_selector,
        store.resource.fields,
    )
    .map_err(|_| BypassReason::FieldSelector)
}

fn list(
    namespace: &str,
    options: ListOptions,
    plan: read::ListPlan,
    store: &Store,
    as_: Representation,
) -> Result<Outcome, BypassReason> {
    let filter = filter(namespace, options, store)?;
    let snapshot = store.snapshot();
    let (objects, cut) = encode::select(&snapshot, &filter, plan.limit);
    if cut {
        return Err(BypassReason::Chunked);
    }
    let body = encode::list(&store.resource, snapshot.resource_version, &objects);
    Ok(json(body, as_))
}

fn watch(
    namespace: &str,
    options: ListOptions,
    plan: WatchPlan,
    store: Arc<Store>,
    min_request_timeout: Duration,
) -> Result<Outcome, BypassReason> {
    if options.allow_watch_bookmarks && store.resource.bookmark.is_none() {
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
    let encoding = Box::new(encode::JsonFrames(store.clone()));
    let watch = match plan {
        WatchPlan::From(version) => {
            Watch::from_version(store, version, watch_options, encoding)
                .map_err(|_| BypassReason::HistoryTooShort)?
        }
        WatchPlan::FromNow => {
            let version = store.progress().resource_version;
            Watch::from_version(store, version, watch_options, encoding)
                .map_err(|_| BypassReason::HistoryTooShort)?
        }
        WatchPlan::InitialEvents(_) => {
            let snapshot = store.snapshot();
            Watch::with_initial_events(store, &snapshot, watch_options, encoding)
        }
    };
    Ok(Outcome::Watch(Box::new(watch)))
}
