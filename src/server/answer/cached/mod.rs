//! Answers reads from the cache, or gives the reason why it cannot.

mod count_shape;
mod degraded;
mod demanded_forms;
mod filling;
mod get;
mod list;
mod listing;
mod located;
mod newest;
mod overlay;
mod overlay_watch;
mod pinned;
mod plan;
mod prepared;
mod selected;
mod served;
mod shape;
mod sharded;
mod too_old_version;
mod view;
mod watch;
mod watch_duration;
mod within_deadline;

use std::sync::Arc;

use apifront_watch_cache::read::{BypassReason, Freshness, WatchPlan};
use apifront_watch_cache::watch::Watch;
use apifront_watch_cache::{CacheMode, Consistency};
use count_shape::count_shape;
use degraded::Degraded;
use http::{HeaderMap, HeaderValue, Method, request};
use kubernetes_wire::api::Status;
use located::{Located, Scopes};
pub(in crate::server) use pinned::{Pin, Pinned};
use plan::Plan;
use prepared::Prepared;
pub(in crate::server) use selected::{Selected, Unselected, select};
use served::Served;
pub(in crate::server) use view::coverage as view_coverage;

use crate::flow::{Admitted, RETRY_AFTER};
use crate::runtime_config::is_built_in_group;
use crate::server::reply::answer::Answer;
use crate::server::reply::refusal;
use crate::server::reply::watch_stream::WatchHead;
use crate::server::stage::context::CacheResult;
use crate::server::stage::{Granted, Identified, NotGranted, PendingGrant};

pub(in crate::server) enum Outcome {
    Answer(Answer),
    /// A watch, and the values for its header.
    Watch(Box<Watch>, WatchHead),
    /// The request is forwarded to upstream, for this reason.
    Bypass(BypassReason),
    /// The cache could never answer a request like this.
    NotAsked,
}

pub(in crate::server) async fn answer(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
) -> Outcome {
    let outcome = read(request, grant, None).await;
    count_shape(&outcome, request, grant.identified());
    let outcome = match sharded::is_kept(grant.identified()) {
        true => sharded::keep(outcome, request, grant).await,
        false => outcome,
    };
    let reason = match outcome {
        Outcome::Bypass(reason) => reason,
        Outcome::NotAsked => BypassReason::UnusualRequest,
        answered => return answered,
    };
    // The caller was identified by what is remembered, and cannot be named to
    // upstream.
    if grant.identified().degraded().is_none() {
        return outcome;
    }
    let status = degraded::unreachable(reason);
    let answer = say(&status, &[], request, grant.identified());
    Outcome::Answer(answer.out_of(CacheResult::Bypass(reason)))
}

/// Returns what the cache would answer from the state that upstream's answer shows.
pub(in crate::server) async fn answer_at(
    request: &request::Parts,
    identified: Arc<Identified>,
    pinned: &mut Pinned,
) -> Outcome {
    read(
        request,
        &mut PendingGrant::new(identified, None),
        Some(pinned),
    )
    .await
}

/// Returns the plan of a watch that the cache may answer.
pub(in crate::server) fn watch_plan(identified: &Identified) -> Option<WatchPlan> {
    match plan::plan(identified) {
        Ok(Some(Plan::Watch(_, plan))) => Some(plan),
        _ => None,
    }
}

/// Tells whether upstream answers, and the cache is only compared. A cached resource
/// stays cached while it is read.
fn is_in_shadow(identified: &Identified) -> bool {
    let generation = identified.generation();
    let gvr = &identified.info().gvr;
    let in_shadow = generation.settings.cache.modes.for_resource(gvr) == CacheMode::Shadow
        && !overlay::is_for(generation, gvr)
        && !sharded::is_kept(identified);
    if in_shadow {
        generation.cache.touch(gvr);
    }
    in_shadow
}

/// Reads from the cache if possible. The checks go from cheap to expensive: options,
/// consistency mode, authorization, and only then the cache itself.
async fn read(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
    pinned: Option<&mut Pinned>,
) -> Outcome {
    let identified = grant.identified();
    let info = identified.info();
    if info.method != Method::GET || !info.is_resource_request || !info.subresource.is_empty() {
        return Outcome::NotAsked;
    }
    let plan = match plan::plan(identified) {
        Ok(Some(plan)) => plan,
        Ok(None) => return Outcome::NotAsked,
        Err(reason) => return Outcome::Bypass(reason),
    };
    if pinned.is_none() && is_in_shadow(identified) {
        return Outcome::Bypass(BypassReason::Shadow);
    }
    let has_rule = pinned.is_none() && identified.shape_rule(&request.headers).is_some();
    if pinned.is_none() && !has_rule && costs_a_request(identified, &plan) && grant.is_first_read()
    {
        return Outcome::Bypass(BypassReason::FirstRead);
    }
    let granted = match grant.ask().await {
        Ok(granted) => granted,
        Err(NotGranted::OnlyUpstream) => return Outcome::Bypass(BypassReason::UnusualRequest),
        Err(NotGranted::Refused(status)) => {
            if pinned.is_none()
                && let Some(outcome) = view::answer(request, grant, plan, &status).await
            {
                return outcome;
            }
            let warnings = degraded::refusal_warning(&status, grant.identified());
            return Outcome::Answer(say(&status, &warnings, request, grant.identified()));
        }
    };
    let seats = grant.seats();
    let (served, degraded) =
        within_deadline::serve(&granted, &request.headers, plan, pinned, seats).await;
    if let (Ok(_), Some(degraded)) = (&served, degraded) {
        degraded.note(&granted, grant);
    }
    match served {
        Err(reason) => Outcome::Bypass(reason),
        Ok(Served::Watch(watch, head)) => Outcome::Watch(watch, head),
        Ok(Served::Answer(answer)) => Outcome::Answer(answer),
        Ok(Served::TimedOut(status)) => {
            let answer = say(&status, &[], request, &granted);
            Outcome::Answer(answer.unclassified())
        }
        Ok(Served::NoSuchResource) => {
            let answer = say(&refusal::no_such_resource(), &[], request, &granted);
            Outcome::Answer(answer.out_of(CacheResult::Document))
        }
        Ok(Served::Overloaded) => Outcome::Answer(Answer::too_many_requests(RETRY_AFTER)),
        Ok(Served::Status(status, warnings, hit)) => {
            let answer = say(&status, &warnings, request, &granted);
            Outcome::Answer(match hit {
                Some(hit) => answer.out_of(CacheResult::Hit(hit)),
                None => answer,
            })
        }
    }
}

/// Tells whether each read like this asks upstream something, even though it is a
/// read of one object.
fn costs_a_request(identified: &Identified, plan: &Plan) -> bool {
    let generation = identified.generation();
    matches!(plan, Plan::Get(Freshness::MostRecent))
        && generation.settings.cache.consistency != Consistency::Bounded
        && !overlay::is_for(generation, &identified.info().gvr)
        && !sharded::is_kept(identified)
}

fn say(
    status: &Status,
    warnings: &[HeaderValue],
    request: &request::Parts,
    identified: &Identified,
) -> Answer {
    let mut answer = Answer::from_status(status, &request.headers, identified.query());
    answer.warn(warnings);
    answer
}

/// Takes the steps from a granted read to its answer: see [`located`].
async fn serve(
    granted: &Granted,
    headers: &HeaderMap,
    plan: Plan,
    pinned: Option<&mut Pinned>,
    seats: Option<&mut Admitted>,
    degraded: &mut Option<Degraded>,
) -> Result<Served, BypassReason> {
    let Some(located) = locate(granted, headers, &plan).await? else {
        return Ok(Served::NoSuchResource);
    };
    if plan.is_of_shard() && !serves_shards(granted).await {
        return Err(BypassReason::UnusualRequest);
    }
    let via_path = granted.info().is_verb_via_path();
    // An answer to be compared with upstream's has the shape that the client asked for.
    let rule = match pinned {
        None => granted.shape_rule(headers).cloned(),
        Some(_) => None,
    };
    let fitted = located.fit(granted, headers, plan, via_path, rule).await?;
    fitted.note_demand(headers, granted.query());
    let (located, plan) = (&fitted.target.located, &fitted.plan);
    *degraded = match degraded::mode(granted, &located.entry, &located.store, plan) {
        degraded::Mode::Off => None,
        // The answer to a WebSocket's handshake cannot hold the warning.
        degraded::Mode::On(_) if granted.handshake().is_some() => {
            return Err(BypassReason::WatchProtocol);
        }
        degraded::Mode::On(degraded) => Some(degraded),
        degraded::Mode::TooOld(status) => return Ok(Served::Status(status, Vec::new(), None)),
    };
    match Prepared::make(granted, headers, fitted, pinned, degraded.as_ref()).await {
        Ok((prepared, plan)) => prepared.answer(plan, seats).await,
        Err(unanswered) => newest::refuse(unanswered),
    }
}

/// Finds the resource of a granted path in the cache. Returns `None` if no server has
/// this path.
async fn locate<'a>(
    granted: &'a Granted,
    headers: &HeaderMap,
    plan: &Plan,
) -> Result<Option<Located<'a>>, BypassReason> {
    let generation = granted.generation();
    let gvr = granted.resource().ok_or(BypassReason::UnusualRequest)?;
    let scopes = Scopes {
        namespaced: granted.scope(true),
        cluster_wide: granted.scope(false),
    };
    // If the path leads to no resource of any scope, no reflector is started.
    if scopes.are_empty() {
        return Err(BypassReason::UnusualRequest);
    }
    let has_rule = granted.shape_rule(headers).is_some();
    let mut waits = filling::waits(granted, gvr, plan);
    if has_rule {
        // A forwarded read would be answered with whole objects.
        waits = waits.max(filling::WATCH_WAITS);
    }
    let found = filling::find(granted, gvr, waits).await;
    if scopes.hold_all() && found.as_ref().err() == Some(&BypassReason::Filling) {
        let asked = (headers, granted.query());
        demanded_forms::note_early(&generation.cache, gvr, asked, plan, has_rule);
    }
    let entry = found?;
    let store = entry.store().ok_or(BypassReason::Filling)?;
    if let Some(scope) = scopes.in_store(&store) {
        let located = Located {
            entry,
            store,
            scope,
        };
        return Ok(Some(located));
    }
    // Upstream refuses a path that does not fit the resource's scope. The answer is
    // known for upstream's own resources.
    let is_own = is_built_in_group(&gvr.group) && granted.route().is_none();
    match is_own && !store.resource.namespaced {
        true => Ok(None),
        false => Err(BypassReason::UnusualRequest),
    }
}

/// Tells whether shards are answered here: always, or because upstream would answer
/// them, too. Backends may be of any release, so upstream's release tells nothing
/// about them.
async fn serves_shards(granted: &Granted) -> bool {
    let generation = granted.generation();
    sharded::is_always_served(granted)
        || granted.route().is_none()
            && generation
                .upstream_features
                .serves_shards(&generation.cache.upstream())
                .await
}
