//! The objects that a query is about: what lists of the same caller would show.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::CacheMode;
use apifront_watch_cache::read::{
    BypassReason, HitCost, ListPlan, ListVersion, Selection, Unanswered,
};
use apifront_watch_cache::store::{Snapshot, Store, Visible};
use apifront_watch_cache::watch::Visibility;
use http::{HeaderMap, HeaderValue};
use kubernetes_wire::api::{Attributes, Status};
use kubernetes_wire::request::Scope;

use super::filling::WATCH_LIST_WAITS;
use super::located::Located;
use super::newest::{self, Newest, Resource};
use super::plan::{self, Plan};
use super::served::Served;
use super::view::OfCache;
use super::{filling, overlay, sharded};
use crate::identity::VIEW;
use crate::queries::{Selections, SelectionsKey};
use crate::server::reply::deprecation;
use crate::server::stage::context::Hit;
use crate::server::stage::{
    Granted, GrantedView, Identified, NoView, NotGranted, PendingGrant, wants_view,
};

/// How long a query tries to have a state that is recent enough.
const PROVEN_WITHIN: Duration = Duration::from_secs(5);
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The selected objects of one state.
pub(in crate::server) struct Selected {
    pub(in crate::server) store: Arc<Store>,
    pub(in crate::server) snapshot: Arc<Snapshot>,
    pub(in crate::server) hit: Hit,
    /// Those of a list of the resource.
    pub(in crate::server) warnings: Vec<HeaderValue>,
    pub(in crate::server) selections: Arc<Selections>,
    /// The views of the lists that may not show all, to know when they change.
    pub(in crate::server) views: Vec<Visibility>,
    /// Whether objects of the configuration are among them, which have no events.
    pub(in crate::server) is_overlaid: bool,
}

/// Why nothing was selected.
pub(in crate::server) enum Unselected {
    Status(Box<Status>),
    Overloaded,
}

impl From<Status> for Unselected {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl From<BypassReason> for Unselected {
    fn from(reason: BypassReason) -> Self {
        let (why, advice) = (reason.as_str(), reason.advice());
        let message = format!("the cache cannot answer: {why}. {advice}");
        sharded::status(reason, message).into()
    }
}

impl Selected {
    /// Tells whether the views are still those of which the objects were selected.
    pub(in crate::server) fn is_of_views(&self) -> bool {
        let parts = self.selections.key.lists.iter();
        let selected = parts.filter_map(|(_, visible)| visible.as_ref());
        selected.eq(self.views.iter().map(Visibility::begins_with))
    }

    /// Keeps the state for the pages that follow.
    pub(in crate::server) fn retain(&self) {
        self.store.retain(&self.snapshot, Instant::now());
    }
}

/// The right to a list, or to the part of it that the caller may see.
enum Right {
    List(Arc<Granted>),
    View(GrantedView),
}

impl Right {
    fn identified(&self) -> &Identified {
        match self {
            Self::List(granted) => granted,
            Self::View(granted) => granted,
        }
    }

    /// Returns the part of the resource that the right is about. `attributes` are those of
    /// its request.
    fn scope<'a>(
        &'a self,
        attributes: &'a Attributes,
        store: &Store,
    ) -> Result<Scope<'a>, Unselected> {
        let namespaced = store.resource.namespaced;
        let scope = match self {
            Self::List(granted) => granted.scope(namespaced),
            Self::View(view) => Scope::from_grant(attributes, namespaced, &view.info().path),
        };
        scope.ok_or_else(|| super::refusal::no_such_resource().into())
    }
}

/// Selects the objects of these lists of one resource, all from one state. The lists
/// differ only in their namespaces, and have no limit.
pub(in crate::server) async fn select(lists: Vec<Arc<Identified>>) -> Result<Selected, Unselected> {
    let mut rights = Vec::with_capacity(lists.len());
    for list in &lists {
        rights.push(grant(list).await?);
    }
    let first = lists.first().ok_or(BypassReason::UnusualRequest)?;
    let generation = first.generation();
    let gvr = &first.info().gvr;
    if generation.cache.store(gvr).is_none() && generation.discovery.has(gvr).await == Some(false) {
        return Err(super::refusal::no_such_resource().into());
    }
    let entry = filling::find(first, gvr, WATCH_LIST_WAITS).await?;
    let store = entry.store().ok_or(BypassReason::Filling)?;
    let mut plans = Vec::with_capacity(rights.len());
    for right in &rights {
        let plan = plan_of(right.identified())?;
        let attributes = right.identified().info().attributes();
        let scope = right.scope(&attributes, &store)?;
        let plan = plan.narrow(&scope, false)?;
        plan.check(&store)?;
        plans.push((plan, scope.namespace.to_owned()));
    }
    let right = rights.first().ok_or(BypassReason::UnusualRequest)?;
    let attributes = first.info().attributes();
    let located = Located {
        scope: right.scope(&attributes, &store)?,
        entry,
        store: store.clone(),
    };
    let (plan, _) = plans.first().ok_or(BypassReason::UnusualRequest)?;
    let newest = proven(located.resource(first), plan).await;
    let (snapshot, cost) = newest.map_err(|unanswered| match newest::refuse(unanswered) {
        Err(reason) => reason.into(),
        Ok(Served::Status(status, ..)) => status.into(),
        Ok(_) => Unselected::Overloaded,
    })?;
    let newest = Newest::State {
        snapshot,
        complete: true,
    };
    let newest = newest::overlaid(newest, generation, &store);
    let snapshot = newest.into_snapshot().ok_or(BypassReason::NotProvenFresh)?;
    let mut lists = Vec::with_capacity(plans.len());
    let mut parts = Vec::with_capacity(plans.len());
    let mut views = Vec::new();
    for ((plan, namespace), right) in plans.into_iter().zip(&rights) {
        let Plan::List(options, plan) = plan else {
            return Err(BypassReason::UnusualRequest.into());
        };
        let visible = visible(&plan, right, &snapshot)?;
        if let Right::View(view) = right {
            views.extend(view.watch_state(snapshot.resource_version));
        }
        let mut selection = Selection::new(&namespace, options, &plan, &store)?;
        if let Some(visible) = &visible {
            selection = selection.of_view(visible);
        }
        lists.push((selection, plan));
        parts.push((namespace, visible));
    }
    let selector = |name| first.query().get(name).unwrap_or_default().to_owned();
    let key = SelectionsKey {
        gvr: gvr.clone(),
        label_selector: selector("labelSelector"),
        field_selector: selector("fieldSelector"),
        lists: parts,
    };
    let version = snapshot.resource_version;
    let warnings = deprecation::of_cached(generation, gvr, &located.entry, &store).await;
    Ok(Selected {
        warnings,
        store,
        snapshot,
        hit: Hit { version, cost },
        selections: Arc::new(Selections { key, lists }),
        views,
        is_overlaid: overlay::is_for(generation, gvr),
    })
}

/// Returns a state that is as recent as the plan demands. What upstream listed may be gone
/// before it is read. A list is then forwarded; a query tries again.
async fn proven(
    resource: Resource<'_>,
    plan: &Plan,
) -> Result<(Arc<Snapshot>, HitCost), Unanswered> {
    let began = Instant::now();
    loop {
        // Any version is late enough.
        match newest::of_view(resource, plan, || Some(0)).await {
            Err(Unanswered::Bypass(BypassReason::NotProvenFresh))
                if began.elapsed() < PROVEN_WITHIN =>
            {
                tokio::time::sleep(TRIED_AGAIN_AFTER).await;
            }
            newest => return newest,
        }
    }
}

fn plan_of(list: &Identified) -> Result<Plan, BypassReason> {
    match plan::plan(list)? {
        Some(plan @ Plan::List(..)) => Ok(plan),
        _ => Err(BypassReason::UnusualRequest),
    }
}

/// Returns what of a list is visible, if that is not all.
fn visible(
    plan: &ListPlan,
    right: &Right,
    snapshot: &Snapshot,
) -> Result<Option<Visible>, Unselected> {
    let Right::View(view) = right else {
        return Ok(None);
    };
    // The set is read after the state. It holds for the state's version and later ones.
    let visible: Option<Visible> = view.list_at(snapshot.resource_version);
    let missing = match plan.version {
        // What the caller could see then is not known any more.
        ListVersion::Exact(_) => BypassReason::SnapshotGone,
        ListVersion::Newest(_) => BypassReason::NotProvenFresh,
    };
    visible.ok_or(missing.into()).map(Some)
}

/// Asks for the right to a list: as a whole, or as a view.
async fn grant(list: &Arc<Identified>) -> Result<Right, Unselected> {
    let (generation, gvr) = (list.generation(), &list.info().gvr);
    if !generation.settings.cache.caches(gvr) {
        return Err(BypassReason::Excluded.into());
    }
    if generation.settings.cache.modes.for_resource(gvr) == CacheMode::Shadow {
        return Err(BypassReason::Shadow.into());
    }
    let mut pending = PendingGrant::new(list.clone(), None);
    let refusal = match pending.ask().await {
        Ok(granted) => return Ok(Right::List(granted)),
        Err(NotGranted::Refused(status)) => status,
        Err(NotGranted::OnlyUpstream) => {
            let message = "apifront cannot tell what a user may list whom its owner acts as";
            return Err(Status::bad_request(message).into());
        }
    };
    // A query without namespaces asks for all that its caller may see.
    let mut headers = HeaderMap::new();
    headers.insert(VIEW, HeaderValue::from_static("true"));
    if refusal.code != 403
        || overlay::is_for(generation, gvr)
        || !wants_view(list, &headers)
        || !pending.may_have_view().await
    {
        return Err(refusal.into());
    }
    let entry = filling::find(list, gvr, WATCH_LIST_WAITS).await?;
    let store = entry.store().ok_or(BypassReason::Filling)?;
    let versions = Arc::new(OfCache::new(gvr.clone(), generation.cache.clone()));
    let viewed = pending.ask_view(store.resource.namespaced, versions).await;
    viewed.map(Right::View).map_err(|none| match none {
        NoView::Refused => refusal.into(),
        NoView::Failed(status) => status.into(),
    })
}
