//! Answers lists and watches over all namespaces with a view, for callers who may
//! not read the whole resource.
//!
//! A caller who gets no view gets the same 403 as without views. So does every
//! request that a view cannot answer exactly.

use std::sync::Arc;

use apifront_watch_cache::CacheMode;
use apifront_watch_cache::read::{BypassReason, HitCost, ListPlan, WatchPlan};
use apifront_watch_cache::reflector::Cache;
use apifront_watch_cache::store::Snapshot;
use async_trait::async_trait;
use http::{HeaderValue, request};
use kubernetes_wire::api::{Attributes, GroupVersionResource, ListOptions, Reason, Status};
use kubernetes_wire::request::Scope;

use super::located::{Fitted, Located, Scopes, Target};
use super::newest::{self, Newest};
use super::plan::Plan;
use super::served::Served;
use super::too_old_version;
use super::watch::Start;
use super::{Outcome, filling, list, overlay, shape, sharded, watch, within_deadline};
use crate::identity::VIEW;
use crate::server::offload::OffloadUser;
use crate::server::reply::watch_stream::WatchHead;
use crate::server::reply::{compression, deprecation};
use crate::server::stage::context::{CacheResult, Hit};
use crate::server::stage::{
    GrantedView, Identified, NoView, PendingGrant, may_have_view, view_coverage, wants_view,
};
use crate::views::{Coverage, Refusal, Versions};

enum Unviewed {
    /// The caller gets the same 403 as without views.
    Refused,
    /// The cache cannot answer.
    Bypass(BypassReason),
    /// This is the answer.
    Status(Status),
}

impl From<BypassReason> for Unviewed {
    fn from(reason: BypassReason) -> Self {
        Self::Bypass(reason)
    }
}

impl From<NoView> for Unviewed {
    fn from(none: NoView) -> Self {
        match none {
            NoView::Refused => Self::Refused,
            NoView::Failed(status) => Self::Status(status),
        }
    }
}

/// Answers with a view. Returns `None` if there is none; then the caller is refused
/// as without views.
pub(super) async fn answer(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
    plan: Plan,
    refusal: &Status,
) -> Option<Outcome> {
    let identified = grant.identified().clone();
    let metrics = identified.generation().views.metrics();
    if refusal.code != 403 || !wants_view(&identified, &request.headers) {
        return None;
    }
    // No resource is read into memory for a caller who may not see any of it.
    if !grant.may_have_view().await {
        metrics.refused(Refusal::Nothing);
        return None;
    }
    let left = within_deadline::time_left(&identified, &plan);
    let served = within_deadline::or_timeout(left, serve(request, grant, plan)).await;
    let served = served.unwrap_or_else(|timeout| Err(Unviewed::Status(timeout)));
    let status = match served {
        Ok(outcome) => {
            metrics.answered(&identified.info().verb);
            return Some(outcome);
        }
        Err(Unviewed::Refused) => return None,
        Err(Unviewed::Status(status)) => status,
        Err(Unviewed::Bypass(reason)) => {
            metrics.refused(Refusal::NotAnswerable);
            unanswered(reason, &identified.info().gvr)?
        }
    };
    let answer = super::say(&status, &[], request, &identified);
    Some(Outcome::Answer(answer))
}

/// Returns the size of the view with which a plain list or watch of the whole
/// resource would be answered to the caller now. Returns `None` if there would be no
/// view.
pub(in crate::server) async fn coverage(
    identified: &Identified,
    verb: &'static str,
    gvr: &GroupVersionResource,
) -> Option<Coverage> {
    let generation = identified.generation();
    // As for a list, nothing is read into memory for a caller who may see nothing.
    if overlay::is_for(generation, gvr)
        || generation.settings.cache.modes.for_resource(gvr) == CacheMode::Shadow
        || !may_have_view(identified, verb, gvr).await
    {
        return None;
    }
    let entry = filling::find(identified, gvr, filling::WATCH_WAITS)
        .await
        .ok()?;
    let store = entry.store()?;
    let versions = Arc::new(OfCache::new(gvr.clone(), generation.cache.clone()));
    let namespaced = store.resource.namespaced;
    view_coverage(identified, verb, gvr, namespaced, versions).await
}

/// Returns the answer to a request that a view cannot answer now, or not from this
/// state. Returns `None` if a view can never answer it.
fn unanswered(reason: BypassReason, gvr: &GroupVersionResource) -> Option<Status> {
    let resource = gvr.group_resource();
    let why = reason.as_str();
    let message = format!("the view of {resource} cannot be answered from the cache: {why}");
    let status = sharded::status(reason, message);
    matches!(status.code, 410 | 503).then_some(status)
}

async fn serve(
    request: &request::Parts,
    grant: &mut PendingGrant<'_>,
    plan: Plan,
) -> Result<Outcome, Unviewed> {
    let identified = grant.identified().clone();
    let (generation, info) = (identified.generation(), identified.info());
    let (headers, gvr) = (&request.headers, &info.gvr);
    if plan.is_of_shard() || overlay::is_for(generation, gvr) {
        return Err(Unviewed::Refused);
    }
    let attributes = info.attributes();
    let scopes = Scopes {
        namespaced: scope(&identified, &attributes, true),
        cluster_wide: scope(&identified, &attributes, false),
    };
    if scopes.are_empty() {
        return Err(Unviewed::Refused);
    }
    // This waits for the cache, because upstream would refuse the request.
    let entry = filling::find(&identified, gvr, filling::WATCH_WAITS).await?;
    let store = entry.store().ok_or(BypassReason::Filling)?;
    let namespaced = store.resource.namespaced;
    let scope = scopes.in_store(&store).ok_or(Unviewed::Refused)?;
    let located = Located {
        entry,
        store,
        scope,
    };
    let rule = identified.shape_rule(headers).cloned();
    let fitted = located.fit(&identified, headers, plan, false, rule).await?;
    let versions = Arc::new(OfCache::new(gvr.clone(), generation.cache.clone()));
    let granted = grant.ask_view(namespaced, versions).await;
    let granted = granted?;
    let Fitted { plan, target } = fitted;
    let Located { entry, store, .. } = &target.located;
    let mut warnings = deprecation::of_cached(generation, gvr, entry, store).await;
    warnings.extend(granted.warnings());
    let prepared = PreparedView {
        granted: &granted,
        request,
        target,
        warnings,
    };
    match plan {
        Plan::Get(_) => Err(Unviewed::Refused),
        Plan::List(options, plan) => prepared.list(options, plan).await,
        Plan::Watch(options, plan) => prepared.watch(options, plan).await,
    }
}

/// Returns the scope of a path over all namespaces.
fn scope<'a>(
    identified: &Identified,
    attributes: &'a Attributes,
    namespaced: bool,
) -> Option<Scope<'a>> {
    let info = identified.info();
    let path = Some(info.path.as_str()).filter(|_| info.is_canonical())?;
    Scope::from_grant(attributes, namespaced, path)
}

/// Everything that an answer needs, except for the state.
struct PreparedView<'a> {
    granted: &'a GrantedView,
    request: &'a request::Parts,
    target: Target<'a>,
    warnings: Vec<HeaderValue>,
}

impl PreparedView<'_> {
    /// Returns the state that the plan demands. If possible, it is later than the
    /// view's present set.
    async fn newest(&self, plan: &Plan) -> Result<(Arc<Snapshot>, HitCost), Unviewed> {
        let resource = self.target.located.resource(self.granted);
        let newest = newest::of_view(resource, plan, || self.granted.since()).await;
        newest.map_err(|unanswered| match newest::refuse(unanswered) {
            Err(reason) => Unviewed::Bypass(reason),
            Ok(Served::Status(status, ..)) => Unviewed::Status(status),
            // The limit of requests in flight was reached.
            Ok(_) => Unviewed::Status(overloaded()),
        })
    }

    async fn list(self, options: ListOptions, plan: ListPlan) -> Result<Outcome, Unviewed> {
        let headers = &self.request.headers;
        let plan = Plan::List(options, plan);
        let (snapshot, cost) = self.newest(&plan).await?;
        let Plan::List(options, plan) = plan else {
            return Err(Unviewed::Refused);
        };
        // The set is read after the state. It holds for the state's version and
        // later ones.
        let visible = self.granted.list_at(snapshot.resource_version);
        let visible = visible.ok_or(BypassReason::NotProvenFresh)?;
        if visible.is_empty() {
            // All were lost since, or all that is left has no answer yet.
            self.granted.still_granted()?;
            return Err(Unviewed::Refused);
        }
        let wanted = list::Wanted {
            extent: list::Extent::View(visible),
            options,
            plan,
            shape: self.target.shape.clone(),
            gzip: compression::is_of_parts(self.target.representation, headers),
        };
        let by = OffloadUser::new(self.granted);
        let newest = Newest::State {
            snapshot,
            complete: true,
        };
        let made = list::make(wanted, &self.target.located.store, newest, by).await;
        let (body, version) = match made {
            Ok(made) => made,
            Err(unmade) => return unmade_outcome(unmade.served()),
        };
        let answer = shape::list(body, &self.target, headers, &self.warnings, by).await;
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(unmade) => return unmade_outcome(unmade.served()),
        };
        if let Some(view) = self.granted.header() {
            answer.headers.insert(VIEW, view);
        }
        let hit = Hit { version, cost };
        Ok(Outcome::Answer(answer.out_of(CacheResult::Hit(hit))))
    }

    async fn watch(self, options: ListOptions, plan: WatchPlan) -> Result<Outcome, Unviewed> {
        let headers = &self.request.headers;
        let whole = Plan::Watch(options, plan);
        let mut cost = HitCost::Nothing;
        let (start, visibility) = match plan {
            WatchPlan::From(version) => match self.granted.watch_from(version) {
                Some(visibility) => (from(version), Some(visibility)),
                None => (self.expired(version), None),
            },
            WatchPlan::FromNow(_) | WatchPlan::InitialEvents(_) | WatchPlan::Unmarked => {
                let (snapshot, question) = self.newest(&whole).await?;
                cost = question;
                // Changes of the view can be told only from a state of the store
                // itself.
                let visible = self.granted.visible();
                let known = newest::as_stored(&self.target.located.store, snapshot, visible).await;
                let snapshot = known.ok_or(BypassReason::NotProvenFresh)?;
                let version = snapshot.resource_version;
                let visibility = self.granted.watch_state(version);
                let visibility = visibility.ok_or(BypassReason::NotProvenFresh)?;
                let start = match plan {
                    WatchPlan::FromNow(_) => from(version),
                    _ => Start::State(snapshot),
                };
                (start, Some(visibility))
            }
        };
        let Plan::Watch(options, _) = whole else {
            return Err(Unviewed::Refused);
        };
        let generation = self.granted.generation();
        let compressed = self.target.located.store.presentation().compresses_watches
            && self.granted.handshake().is_none()
            && watch::is_compressed(&options, headers);
        let lasts = generation.settings.min_request_timeout;
        let shape = self.target.shape_header();
        let watch = watch::watch(
            "",
            options,
            start,
            self.target.located.store,
            self.target.shape,
            lasts,
        )?;
        let watch = match plan {
            WatchPlan::Unmarked => watch.unmarked(),
            _ => watch,
        };
        let watch = match visibility {
            // A list may have been read at a later version than the store's.
            Some(visibility) => watch.of_view_when_reached(visibility),
            None => watch,
        };
        let watch = watch::fitted(watch, compressed, headers);
        let head = WatchHead {
            warnings: self.warnings,
            view: self.granted.header(),
            shape,
            cost,
        };
        Ok(Outcome::Watch(Box::new(watch), head))
    }

    /// Returns the start of a watch from a version at which the client may have had
    /// another set of objects.
    fn expired(&self, version: u64) -> Start {
        let oldest = self.granted.since().unwrap_or(version).saturating_add(1);
        let status = too_old_version::too_old(version, oldest);
        Start::Expired(version, Box::new(status))
    }
}

/// Returns the start of a watch after a version. It is not forwarded, because
/// upstream would refuse the caller.
fn from(version: u64) -> Start {
    let forwards = false;
    Start::Version { version, forwards }
}

fn unmade_outcome(served: Result<Served, BypassReason>) -> Result<Outcome, Unviewed> {
    match served? {
        Served::Answer(answer) => Ok(Outcome::Answer(answer)),
        _ => Err(Unviewed::Status(overloaded())),
    }
}

fn overloaded() -> Status {
    let message = "too many requests, please try again later";
    Status::failure(429, Reason::TooManyRequests, message).retry_soon()
}

/// The versions of a resource that the cache has, and those of upstream.
pub(super) struct OfCache {
    gvr: GroupVersionResource,
    cache: Arc<Cache>,
}

impl OfCache {
    pub(super) fn new(gvr: GroupVersionResource, cache: Arc<Cache>) -> Self {
        Self { gvr, cache }
    }
}

#[async_trait]
impl Versions for OfCache {
    fn stored(&self) -> Option<u64> {
        let store = self.cache.store(&self.gvr)?;
        Some(store.highest_version())
    }

    async fn upstream(&self) -> Option<u64> {
        let entries = self.cache.entries();
        let entry = entries.into_iter().find(|entry| entry.gvr == self.gvr)?;
        entry.upstream_version().await
    }
}
