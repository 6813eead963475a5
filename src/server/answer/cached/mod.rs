//! Answering a read from the cache, or saying why not.

mod list;
mod newest;
mod overlay;
mod overlay_watch;
mod shape;
mod watch;

use std::time::Duration;

use apifront_watch_cache::read::{
    self, BypassReason, Freshness, Shape, WatchPlan, legacy_watch, parameters,
};
use apifront_watch_cache::store::{Filter, Store};
use apifront_watch_cache::watch::Watch;
use http::{HeaderMap, HeaderValue, Method};
use kubernetes_wire::api::{ListOptions, Reason, Status};
use kubernetes_wire::representation::Form;
use kubernetes_wire::request::{Deadline, Scope};
use newest::Resource;
use pingora_http::RequestHeader;

use super::cpu_offload::{Behalf, Unmade};
use super::deprecation;
use super::respond::Answer;
use crate::flow::Held;
use crate::server::stage::context::CacheResult;
use crate::server::stage::{Granted, Identified, Leave, Received, Ungranted};

/// How long a watch waits for its resource to be listed for the first time,
/// before it is forwarded. kube-apiserver's cache waits 3 s.
const WATCH_WAITS: Duration = Duration::from_secs(2);

pub(in crate::server) enum Outcome {
    Answer(Answer),
    /// With the warnings that go with its header.
    Watch(Box<Watch>, Vec<HeaderValue>),
    /// Upstream answers.
    Bypass(BypassReason),
    /// The cache has no part in such requests.
    NotAsked,
}

/// A read that could be made of the store.
enum Served {
    Answer(Answer),
    /// The object or state that was asked for is not there; `Some`: at this
    /// version.
    Status(Status, Vec<HeaderValue>, Option<u64>),
    /// 429 as the in-flight filter says it: no Status.
    Overloaded,
    Watch(Box<Watch>, Vec<HeaderValue>),
}

impl Unmade {
    fn served(self) -> Result<Served, BypassReason> {
        match self {
            Self::Bypass(reason) => Err(reason),
            Self::Overloaded => Ok(Served::Overloaded),
        }
    }
}

/// What the request wants its connection to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upgrade {
    No,
    /// By a handshake that can be answered here.
    WebSocket,
    Other,
}

impl Upgrade {
    fn of(received: &Received) -> Self {
        match received.handshake() {
            Some(_) => Self::WebSocket,
            None if received.wants_upgrade() => Self::Other,
            None => Self::No,
        }
    }
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
    fn is_of_shard(&self) -> bool {
        match self {
            Self::Get(_) => false,
            Self::List(options, _) | Self::Watch(options, _) => options.shard_selector.is_some(),
        }
    }

    /// Whether the store can answer such a read at all: to be known before
    /// upstream is asked for anything.
    fn check(&self, scope: &Scope<'_>, store: &Store) -> Result<(), BypassReason> {
        let (Self::List(options, _) | Self::Watch(options, _)) = self else {
            return Ok(());
        };
        filter(scope.namespace, options.clone(), store)?;
        match self {
            Self::Watch(options, _) => watch::check(options, store),
            Self::Get(_) | Self::List(..) => Ok(()),
        }
    }
}

/// Decides from cheap to dear: options, consistency mode, authorization, and
/// only then the cache itself.
pub(in crate::server) async fn answer(request: &RequestHeader, leave: &mut Leave<'_>) -> Outcome {
    let identified = leave.identified();
    let info = identified.info();
    if info.method != Method::GET || !info.is_resource_request || !info.subresource.is_empty() {
        return Outcome::NotAsked;
    }
    let plan = match plan(identified) {
        Ok(Some(plan)) => plan,
        Ok(None) => return Outcome::NotAsked,
        Err(reason) => return Outcome::Bypass(reason),
    };
    let granted = match leave.ask().await {
        Ok(granted) => granted,
        Err(Ungranted::OnlyUpstream) => return Outcome::Bypass(BypassReason::UnusualRequest),
        Err(Ungranted::Refused(status)) => {
            return Outcome::Answer(say(&status, &[], request, leave.identified()));
        }
    };
    match serve_within(&granted, &request.headers, plan).await {
        Err(reason) => Outcome::Bypass(reason),
        Ok(Served::Watch(watch, warnings)) => Outcome::Watch(watch, warnings),
        Ok(Served::Answer(answer)) => Outcome::Answer(answer),
        Ok(Served::Overloaded) => Outcome::Answer(Answer::too_many_requests()),
        Ok(Served::Status(status, warnings, version)) => {
            let answer = say(&status, &warnings, request, &granted);
            Outcome::Answer(match version {
                Some(version) => answer.out_of(CacheResult::Hit(version)),
                None => answer,
            })
        }
    }
}

fn say(
    status: &Status,
    warnings: &[HeaderValue],
    request: &RequestHeader,
    identified: &Identified,
) -> Answer {
    let mut answer = Answer::from_status(status, &request.headers, identified.query());
    answer.warn(warnings);
    answer
}

fn plan(received: &Received) -> Result<Option<Plan>, BypassReason> {
    let (info, query) = (received.info(), received.query());
    let verb = info.verb.as_str();
    if !matches!(verb, "get" | "list" | "watch") || info.parts.len() > 2 {
        return Ok(None);
    }
    if !received.front().config.cache.caches(&info.gvr) {
        return Err(BypassReason::Excluded);
    }
    let upgrade = Upgrade::of(received);
    if upgrade == Upgrade::Other || upgrade == Upgrade::WebSocket && verb != "watch" {
        return Err(BypassReason::WatchProtocol);
    }
    if !info.is_canonical() {
        return Err(BypassReason::UnusualRequest);
    }
    // A watch has a time of its own, `timeoutSeconds`.
    if verb != "watch" && received.deadline() == Deadline::Unclear {
        return Err(BypassReason::InvalidOptions);
    }
    let options = || {
        parameters::check_list(query)?;
        let shard_selector = parameters::shard(query)?;
        let options = ListOptions::from_query(query);
        let options = options.map_err(|_| BypassReason::InvalidOptions)?;
        Ok::<_, BypassReason>(ListOptions {
            shard_selector,
            ..options
        })
    };
    let plan = match verb {
        "get" => {
            parameters::check_get(query)?;
            Plan::Get(read::get(query)?)
        }
        "list" => {
            let options = options()?;
            let plan = read::list(&options)?;
            Plan::List(options, plan)
        }
        _ => {
            let options = options()?;
            let plan = match info.is_verb_via_path() {
                true => legacy_watch::plan(&options)?,
                false => read::watch(&options)?,
            };
            Plan::Watch(options, plan)
        }
    };
    Ok(Some(plan))
}

impl Plan {
    /// Selects what the grant is about and no more: the selectors are those that
    /// were authorized. A legacy watch is authorized without any, and its own
    /// only narrow it.
    fn narrow(self, scope: &Scope<'_>, legacy_watch: bool) -> Result<Self, BypassReason> {
        let narrow = |mut options: ListOptions| {
            if !legacy_watch {
                let selected = options.select(scope.label_selector, scope.field_selector);
                selected.map_err(|_| BypassReason::InvalidOptions)?;
            }
            legacy_watch::options(options, scope.name)
        };
        Ok(match self {
            Self::Get(freshness) => Self::Get(freshness),
            Self::List(options, plan) => Self::List(narrow(options)?, plan),
            Self::Watch(options, plan) => Self::Watch(narrow(options)?, plan),
        })
    }
}

/// Serves within the time that the request gives itself.
async fn serve_within(
    granted: &Granted,
    headers: &HeaderMap,
    plan: Plan,
) -> Result<Served, BypassReason> {
    let within = match (granted.deadline(), &plan) {
        (Deadline::Within(within), Plan::Get(_) | Plan::List(..)) => within,
        _ => return serve(granted, headers, plan).await,
    };
    let left = within.saturating_sub(granted.started().elapsed());
    match tokio::time::timeout(left, serve(granted, headers, plan)).await {
        Ok(served) => served,
        Err(_) => {
            let message = "Timeout: request did not complete within the allotted timeout";
            let status = Status::failure(504, Reason::Timeout, message);
            Ok(Served::Status(status, Vec::new(), None))
        }
    }
}

async fn serve(granted: &Granted, headers: &HeaderMap, plan: Plan) -> Result<Served, BypassReason> {
    let front = granted.front();
    let gvr = granted.resource().ok_or(BypassReason::UnusualRequest)?;
    // No reflector is started for a path that leads to no resource of any scope.
    if granted.scope(true).is_none() && granted.scope(false).is_none() {
        return Err(BypassReason::UnusualRequest);
    }
    let selection = front.config.as_ref();
    let waits = match plan {
        // A forwarded watch stays upstream for as long as it lasts.
        Plan::Watch(..) => true,
        // Upstream does not know all of what is asked.
        Plan::Get(_) | Plan::List(..) => overlay::is_for(front, gvr),
    };
    let entry = if waits {
        let found = front.cache.lookup_within(gvr, selection, WATCH_WAITS);
        found.await?
    } else {
        front.cache.lookup(gvr, selection)?
    };
    let store = entry.store().ok_or(BypassReason::Filling)?;
    // A path that does not fit the resource's scope is upstream's to refuse.
    let scope = granted.scope(store.resource.namespaced);
    let scope = scope.ok_or(BypassReason::UnusualRequest)?;
    let plan = plan.narrow(&scope, granted.info().is_verb_via_path())?;
    if plan.is_of_shard() && !serves_shards(granted, &store, &plan).await {
        return Err(BypassReason::UnusualRequest);
    }
    let (representation, shape) = shape::representation(headers, granted.query(), &store, &plan)?;
    plan.check(&scope, &store)?;
    // The shard stands in the metadata of whole lists alone.
    if plan.is_of_shard() && matches!(plan, Plan::List(..)) && !matches!(shape, Shape::Whole(_)) {
        return Err(BypassReason::Representation);
    }
    let resource = Resource {
        front,
        entry: &entry,
        store: &store,
        user: granted.user(),
        scope: &scope,
    };
    let newest = match newest::newest(resource, &plan).await {
        Ok(newest) => newest,
        Err(unanswered) => return newest::refuse(unanswered),
    };
    let newest = overlay::apply(front, &store, newest);
    let warnings = deprecation::of_cached(front, gvr, &entry, &store).await;
    let by = Behalf::new(granted);
    match plan {
        Plan::Get(_) => {
            let version = newest.resource_version(&store);
            let Some(object) = newest.object(scope.namespace, scope.name) else {
                let status = Status::not_found(&gvr.group_resource(), scope.name);
                return Ok(Served::Status(status, warnings, Some(version)));
            };
            let body = vec![read::get_body(&store, &object, &shape)?];
            let body = (body, Held::default());
            match shape::answer(body, representation, headers, &warnings, by).await {
                Ok(answer) => Ok(Served::Answer(answer.out_of(CacheResult::Hit(version)))),
                Err(unmade) => unmade.served(),
            }
        }
        Plan::List(options, plan) => {
            let wanted = list::Wanted {
                namespace: scope.namespace.to_owned(),
                options,
                plan,
                shape,
                gzip: shape::stitches(representation, headers),
            };
            let (body, version) = match list::make(wanted, &store, newest, by).await {
                Ok(made) => made,
                Err(unmade) => return unmade.served(),
            };
            match shape::list(body, representation, headers, &warnings, by).await {
                Ok(answer) => Ok(Served::Answer(answer.out_of(CacheResult::Hit(version)))),
                Err(unmade) => unmade.served(),
            }
        }
        Plan::Watch(options, plan) if overlay::is_for(front, gvr) => {
            let opened = overlay_watch::open(front, store, newest, options, plan, shape).await?;
            Ok(match opened {
                Ok(watch) => Served::Watch(Box::new(watch), warnings),
                Err(status) => Served::Status(*status, warnings, None),
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
                return Ok(Served::Status(expired, warnings, None));
            }
            let lasts = front.config.serving.min_request_timeout;
            let watch = watch::watch(scope.namespace, options, start, store, shape, lasts)?;
            let watch = if unmarked { watch.unmarked() } else { watch };
            Ok(Served::Watch(Box::new(watch), warnings))
        }
    }
}

/// Whether upstream has shards too, and its lists of the resource say which they
/// are. Backends may be of any release.
async fn serves_shards(granted: &Granted, store: &Store, plan: &Plan) -> bool {
    let front = granted.front();
    let lists_say = matches!(plan, Plan::Watch(..)) || store.resource.envelope.form == Form::Struct;
    lists_say && granted.route().is_none() && front.shards.are_served(&front.cache.upstream()).await
}

fn filter(namespace: &str, options: ListOptions, store: &Store) -> Result<Filter, BypassReason> {
    Filter::new(
        namespace,
        options.label_selector,
        options.field_selector,
        &store.resource,
    )
    .map(|filter| filter.of_shard(options.shard_selector))
    .map_err(|_| BypassReason::FieldSelector)
}
