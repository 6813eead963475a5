//! Answering a read from the cache, or saying why not.

mod list;
mod newest;
mod overlay;
mod overlay_watch;
mod shape;
mod watch;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};

use super::aside::{Behalf, Unmade};
use super::audit;
use super::deprecation;
use super::front::{Front, Gate};
use super::respond::Answer;
use crate::api::{ListOptions, Query, Status, UserInfo};
use crate::audit::Trail;
use crate::flow::Held;
use crate::read::{self, BypassReason, Freshness, WatchPlan, legacy_watch};
use crate::request::RequestInfo;
use crate::store::{Filter, Store};
use crate::watch::Watch;
use newest::Resource;

/// How long a watch waits for its resource to be listed for the first time,
/// before it is forwarded. kube-apiserver's cache waits 3 s.
const WATCH_WAITS: Duration = Duration::from_secs(2);

pub(super) enum Outcome {
    /// The state at this version.
    Answer(Answer, u64),
    /// At this version there is no such object.
    NotFound(Status, Vec<HeaderValue>, u64),
    Watch(Box<Watch>, Vec<HeaderValue>),
    /// 403 and the like.
    Refused(Status, Vec<HeaderValue>),
    /// 429 as the in-flight filter says it: no Status.
    Overloaded,
    /// Upstream answers.
    Bypass(BypassReason),
    /// The cache has no part in such requests.
    NotAsked,
}

impl Unmade {
    fn outcome(self) -> Result<Outcome, BypassReason> {
        match self {
            Self::Bypass(reason) => Err(reason),
            Self::Overloaded => Ok(Outcome::Overloaded),
        }
    }
}

/// What the request wants its connection to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    No,
    /// By a handshake that can be answered here.
    WebSocket,
    Other,
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
            Self::List(_, plan) => plan.freshness(),
            Self::Watch(_, WatchPlan::InitialEvents(freshness) | WatchPlan::FromNow(freshness)) => {
                *freshness
            }
            Self::Watch(_, WatchPlan::From(_) | WatchPlan::Unmarked) => Freshness::Any,
        }
    }
}

impl Plan {
    /// Whether the store can answer such a read at all: to be known before
    /// upstream is asked for anything.
    fn check(&self, namespace: &str, store: &Store) -> Result<(), BypassReason> {
        let (Self::List(options, _) | Self::Watch(options, _)) = self else {
            return Ok(());
        };
        filter(namespace, options.clone(), store)?;
        match self {
            Self::Watch(options, _) => watch::check(options, store),
            Self::Get(_) | Self::List(..) => Ok(()),
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
    upgrade: Upgrade,
    user: Option<&UserInfo>,
    trail: Option<&mut Trail>,
) -> Outcome {
    if info.method != Method::GET || !info.is_resource_request || !info.subresource.is_empty() {
        return Outcome::NotAsked;
    }
    let plan = match plan(front, info, query, upgrade) {
        Ok(Some(plan)) => plan,
        Ok(None) => return Outcome::NotAsked,
        Err(reason) => return Outcome::Bypass(reason),
    };
    if let (Some(user), Gate::Delegated(gate)) = (user, &front.gate)
        && let Err(status) = audit::authorize(gate, user, &info.attributes(), trail).await
    {
        return Outcome::Refused(status, Vec::new());
    }
    match serve(front, info, query, headers, user, plan).await {
        Ok(outcome) => outcome,
        Err(reason) => Outcome::Bypass(reason),
    }
}

fn plan(
    front: &Front,
    info: &RequestInfo,
    query: &Query,
    upgrade: Upgrade,
) -> Result<Option<Plan>, BypassReason> {
    let verb = info.verb.as_str();
    if !matches!(verb, "get" | "list" | "watch") || info.parts.len() > 2 {
        return Ok(None);
    }
    if !front.config.cache.caches(&info.gvr) {
        return Err(BypassReason::Excluded);
    }
    if upgrade == Upgrade::Other || upgrade == Upgrade::WebSocket && verb != "watch" {
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
            if info.is_verb_via_path() {
                let options = legacy_watch::options(options, &info.name)?;
                let plan = legacy_watch::plan(&options)?;
                Plan::Watch(options, plan)
            } else {
                let plan = read::watch(&options)?;
                Plan::Watch(options, plan)
            }
        }
    };
    Ok(Some(plan))
}

async fn serve(
    front: &Front,
    info: &RequestInfo,
    query: &Query,
    headers: &HeaderMap,
    user: Option<&UserInfo>,
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
        // Upstream does not know all of what is asked.
        _ if overlay::is_for(front, &info.gvr) => {
            front
                .cache
                .lookup_within(&info.gvr, selection, WATCH_WAITS)
                .await?
        }
        Plan::Get(_) | Plan::List(..) => front.cache.lookup(&info.gvr, selection)?,
    };
    let store = entry.store().ok_or(BypassReason::Filling)?;
    let namespace = scope(info, &store)?;
    let (representation, shape) = shape::representation(headers, query, &store, &plan)?;
    plan.check(namespace, &store)?;
    let resource = Resource {
        front,
        entry: &entry,
        store: &store,
        user,
    };
    let newest = match newest::newest(resource, info, namespace, &plan).await {
        Ok(newest) => newest,
        Err(unanswered) => return newest::refuse(unanswered),
    };
    let newest = overlay::apply(front, &store, newest);
    let warnings = deprecation::of_cached(front, info, &entry, &store).await;
    let by = Behalf::new(front, user);
    match plan {
        Plan::Get(_) => {
            let version = newest.resource_version(&store);
            let Some(object) = newest.object(namespace, &info.name) else {
                let resource = info.gvr.group_resource();
                let status = Status::not_found(&resource, &info.name);
                return Ok(Outcome::NotFound(status, warnings, version));
            };
            let body = vec![read::get_body(&store, &object, &shape)?];
            let body = (body, Held::default());
            match shape::answer(body, representation, headers, &warnings, by).await {
                Ok(answer) => Ok(Outcome::Answer(answer, version)),
                Err(unmade) => unmade.outcome(),
            }
        }
        Plan::List(options, plan) => {
            let wanted = list::Wanted {
                namespace: namespace.to_owned(),
                options,
                plan,
                shape,
                gzip: shape::stitches(representation, headers),
            };
            let (body, version) = match list::make(wanted, &store, newest, by).await {
                Ok(made) => made,
                Err(unmade) => return unmade.outcome(),
            };
            match shape::list(body, representation, headers, &warnings, by).await {
                Ok(answer) => Ok(Outcome::Answer(answer, version)),
                Err(unmade) => unmade.outcome(),
            }
        }
        Plan::Watch(options, plan) if overlay::is_for(front, &info.gvr) => {
            let opened = overlay_watch::open(front, store, newest, options, plan, shape).await?;
            Ok(match opened {
                Ok(watch) => Outcome::Watch(Box::new(watch), warnings),
                Err(status) => Outcome::Refused(*status, warnings),
            })
        }
        Plan::Watch(options, plan) => {
            let unmarked = plan == WatchPlan::Unmarked;
            let start = match plan {
                WatchPlan::From(version) => watch::Start::Version(version),
                WatchPlan::FromNow(_) => watch::Start::Version(newest.resource_version(&store)),
                WatchPlan::InitialEvents(_) | WatchPlan::Unmarked => newest
                    .into_snapshot()
                    .map(watch::Start::State)
                    .ok_or(BypassReason::NotProvenFresh)?,
            };
            if let watch::Start::Version(version) = start
                && let Err(expired) = watch::refuse_half_known(version, &store)
            {
                return Ok(Outcome::Refused(expired, warnings));
            }
            let min_request_timeout = front.config.serving.min_request_timeout;
            watch::watch(namespace, options, start, store, shape, min_request_timeout)
                .map(|watch| if unmarked { watch.unmarked() } else { watch })
                .map(|watch| Outcome::Watch(Box::new(watch), warnings))
        }
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
    let one = info.parts.len() > 1;
    let fits = match (store.resource.namespaced, namespace.is_empty()) {
        (true, false) | (false, true) => true,
        (true, true) => !one,
        (false, false) => false,
    };
    fits.then_some(namespace)
        .ok_or(BypassReason::UnusualRequest)
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
