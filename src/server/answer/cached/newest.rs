//! Finds the state that answers a read: the store's own, or one that upstream was
//! asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::read::{
    AnswerSource, BypassReason, Consistent, Freshness, HitCost, ListQuery, ListVersion, Question,
    SharedPage, SharedState, Unanswered, WatchPlan, reached,
};
use apifront_watch_cache::reflector::Entry;
use apifront_watch_cache::store::{self, ObjectKey, Snapshot, Store, StoredObject, Visible};
use kubernetes_wire::api::{Reason, Status, UserInfo};
use kubernetes_wire::request::Scope;

use super::plan::Plan;
use super::served::Served;
use super::{degraded, overlay};
use crate::server::reply::refusal;
use crate::server::state::generation::Generation;

/// How long a list of a view waits for a version from which a client can watch.
/// kube-apiserver's cache waits for a version as long.
const LATER_WITHIN: Duration = Duration::from_secs(3);

/// While objects of the resource change, a later version comes by itself within this
/// time.
const COMES_WITHIN: Duration = Duration::from_millis(10);

/// While nothing at all is written, no later version comes. The state is checked
/// again after this time.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
pub(super) struct Resource<'a> {
    pub(super) generation: &'a Generation,
    pub(super) entry: &'a Arc<Entry>,
    pub(super) store: &'a Arc<Store>,
    pub(super) user: Option<&'a UserInfo>,
    /// The part of the resource that was granted.
    pub(super) scope: &'a Scope<'a>,
}

impl<'a> Resource<'a> {
    fn consistent(&self) -> Consistent<'a> {
        let config = &self.generation.settings.cache;
        let own_writes = &self.generation.own_writes;
        Consistent {
            entry: self.entry,
            store: self.store,
            mode: config.consistency,
            max_staleness: config.max_staleness,
            wrote: own_writes.wrote(self.user, self.scope.gvr, Instant::now()),
        }
    }
}

/// A state, page or object that is as recent as the read demands.
pub(super) enum Newest {
    State {
        snapshot: Arc<Snapshot>,
        /// Whether the state has the whole resource, and not only the requested
        /// part.
        complete: bool,
    },
    Page(SharedPage),
    Object(Option<Arc<StoredObject>>),
}

impl Newest {
    pub(super) fn object(&self, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
        match self {
            Self::State { snapshot, .. } => snapshot.get(namespace, name).cloned(),
            Self::Object(object) => object.clone(),
            Self::Page(_) => None,
        }
    }

    /// Returns the version of the state, page or object. If the object does not
    /// exist, returns the version of the store.
    pub(super) fn resource_version(&self, store: &Store) -> u64 {
        match self {
            Self::State { snapshot, .. } => snapshot.resource_version,
            Self::Page(page) => page.resource_version,
            Self::Object(Some(object)) => object.resource_version,
            Self::Object(None) => store.progress().resource_version,
        }
    }

    pub(super) fn into_snapshot(self) -> Option<Arc<Snapshot>> {
        match self {
            Self::State { snapshot, .. } => Some(snapshot),
            Self::Page(_) | Self::Object(_) => None,
        }
    }
}

/// Adds the configured APIServices to a state of the resource APIService.
pub(super) fn overlaid(newest: Newest, generation: &Generation, store: &Store) -> Newest {
    match newest {
        Newest::State { snapshot, complete }
            if overlay::is_for(generation, &store.resource.gvr) =>
        {
            let version = snapshot.resource_version;
            let ours = overlay::objects(generation, store, version);
            let snapshot = Arc::new(snapshot.with(version, ours, Vec::new()));
            Newest::State { snapshot, complete }
        }
        newest => newest,
    }
}

/// Returns the state for a plan, once it is known to be recent enough. In degraded
/// mode, any state in memory is recent enough.
pub(super) async fn newest(
    resource: Resource<'_>,
    plan: &Plan,
    is_degraded: bool,
) -> Result<(Newest, HitCost), Unanswered> {
    let Resource {
        generation,
        entry,
        store,
        scope,
        ..
    } = resource;
    if let Plan::List(_, plan) = plan
        && let ListVersion::Exact(version) = plan.version
        && let Some(snapshot) = store.snapshot_at(version)
    {
        // The store itself may not have reached this version yet.
        let complete = true;
        return Ok((Newest::State { snapshot, complete }, HitCost::Nothing));
    }
    let mut consistent = resource.consistent();
    if is_degraded {
        consistent.max_staleness = Duration::MAX;
    }
    let freshness = match is_degraded {
        true => degraded::relaxed(plan.freshness()),
        false => plan.freshness(),
    };
    if let AnswerSource::Store(cost) = consistent.ensure(freshness).await? {
        let newest = Newest::State {
            snapshot: store.snapshot(),
            complete: true,
        };
        return Ok((newest, cost));
    }
    let patience = generation.settings.upstream_request_timeout;
    let overlaid = overlay::is_for(generation, scope.gvr);
    if matches!(plan, Plan::Get(_)) && !overlaid {
        let one = (scope.namespace, scope.name);
        let object = generation.shared_reads.object(entry, store, one, patience);
        let (object, cost) = object.await?;
        return Ok((Newest::Object(object), cost));
    }
    let question = question(plan, scope, overlaid);
    let state = generation
        .shared_reads
        .state(entry, store, question, patience);
    let newest = match state.await? {
        SharedState::Whole { snapshot, complete } => Newest::State { snapshot, complete },
        SharedState::Page(page) => Newest::Page(page),
    };
    Ok((newest, HitCost::Names))
}

/// Returns the state for a view, once it is as recent as the plan demands. For a
/// list, it waits some time for a state later than `since`, because a client can
/// watch from that.
pub(super) async fn of_view(
    resource: Resource<'_>,
    plan: &Plan,
    since: impl Fn() -> Option<u64>,
) -> Result<(Arc<Snapshot>, HitCost), Unanswered> {
    let store = resource.store;
    if let Plan::List(_, plan) = plan
        && let ListVersion::Exact(version) = plan.version
    {
        let exact = match store.snapshot_at(version) {
            Some(exact) => Some(exact),
            None => {
                resource.consistent().ensure(plan.freshness()).await?;
                store.snapshot_at(version)
            }
        };
        let exact = exact.ok_or(BypassReason::SnapshotGone)?;
        return Ok((exact, HitCost::Nothing));
    }
    let until = tokio::time::Instant::now().checked_add(LATER_WITHIN);
    let (mut snapshot, mut cost) = match recent(resource, plan).await? {
        AnswerSource::Store(cost) => (store.snapshot(), cost),
        AnswerSource::SharedRead => (whole(resource).await?, HitCost::Names),
    };
    if matches!(plan, Plan::Watch(..)) {
        return Ok((snapshot, cost));
    }
    let mut wait = COMES_WITHIN;
    loop {
        let since = since();
        if since.is_some_and(|since| snapshot.resource_version > since) {
            return Ok((snapshot, cost));
        }
        // A state from upstream is as recent as the store's own, if the store has
        // reached nothing later.
        if let Some(later) = since.and_then(|since| store.later_than(since)) {
            return Ok((later, cost));
        }
        if until.is_none_or(|until| tokio::time::Instant::now() >= until) {
            return Ok((snapshot, cost));
        }
        let next = since.unwrap_or_default().saturating_add(1);
        if !reached(store, next, std::mem::replace(&mut wait, RECHECK_INTERVAL)).await {
            // Nothing of the resource changes now.
            cost = HitCost::Names;
            snapshot = whole(resource).await?;
        }
    }
}

/// Tells where to find a state that is as recent as the plan demands.
async fn recent(resource: Resource<'_>, plan: &Plan) -> Result<AnswerSource, Unanswered> {
    let freshness = plan.freshness();
    let is_list = matches!(plan, Plan::List(..));
    if let Freshness::NotOlderThan(version) = freshness
        && is_list
        && resource
            .store
            .later_than(version.saturating_sub(1))
            .is_some()
    {
        return Ok(AnswerSource::Store(HitCost::Nothing));
    }
    Ok(resource.consistent().ensure(freshness).await?)
}

/// Returns a state of the store itself that shows the same visible objects, or later
/// ones. Returns `None` if the store does not have one in time.
pub(super) async fn as_stored(
    store: &Store,
    snapshot: Arc<Snapshot>,
    visible: Visible,
) -> Option<Arc<Snapshot>> {
    let version = snapshot.resource_version;
    let scope = store::KeyScope::Visible(visible);
    let until = tokio::time::Instant::now().checked_add(LATER_WITHIN)?;
    loop {
        if version <= store.progress().resource_version {
            return Some(store.snapshot());
        }
        let own = store.snapshot();
        if own
            .iter(&scope)
            .map(key_and_version)
            .eq(snapshot.iter(&scope).map(key_and_version))
        {
            return Some(own);
        }
        if tokio::time::Instant::now() >= until {
            return None;
        }
        reached(store, version, RECHECK_INTERVAL).await;
    }
}

fn key_and_version(object: &Arc<StoredObject>) -> (&ObjectKey, u64) {
    (&object.key, object.resource_version)
}

/// Returns the whole resource at its most recent version.
async fn whole(resource: Resource<'_>) -> Result<Arc<Snapshot>, Unanswered> {
    let Resource {
        generation,
        entry,
        store,
        ..
    } = resource;
    let patience = generation.settings.upstream_request_timeout;
    let everything = Question::List(ListQuery::everything(""));
    let read = generation
        .shared_reads
        .state(entry, store, everything, patience);
    match read.await? {
        SharedState::Whole { snapshot, .. } => {
            store.keep_later(&snapshot);
            Ok(snapshot)
        }
        SharedState::Page(_) => Err(BypassReason::NotProvenFresh.into()),
    }
}

/// Returns the question to upstream that a read needs.
fn question(plan: &Plan, scope: &Scope<'_>, overlaid: bool) -> Question {
    let query = |limit| {
        Question::List(ListQuery {
            namespace: scope.namespace.to_owned(),
            label_selector: scope.label_selector.to_owned(),
            field_selector: scope.field_selector.to_owned(),
            limit,
        })
    };
    match plan {
        // The configured APIServices are added to the whole of upstream's.
        _ if overlaid => Question::List(ListQuery::everything(scope.namespace)),
        // The object is in the state that this proves.
        Plan::Get(_) => Question::Version,
        // A list that continues at the newest state needs the whole state, because a
        // page lacks the objects before its start.
        Plan::List(_, plan) if !plan.start.is_empty() => {
            Question::List(ListQuery::everything(scope.namespace))
        }
        // Upstream is not asked for shards, and a page of its own would have other
        // objects.
        Plan::List(options, plan) if options.shard_selector.is_some() && plan.limit > 0 => {
            Question::List(ListQuery::everything(scope.namespace))
        }
        Plan::List(_, plan) => query(plan.limit),
        Plan::Watch(_, WatchPlan::InitialEvents(_)) => query(0),
        Plan::Watch(_, WatchPlan::From(_) | WatchPlan::FromNow(_) | WatchPlan::Unmarked) => {
            Question::Version
        }
    }
}

/// Returns the answer to a client whose shared read failed.
pub(super) fn refuse(unanswered: Unanswered) -> Result<Served, BypassReason> {
    let status = match unanswered {
        Unanswered::Bypass(reason) => return Err(reason),
        Unanswered::TooManyRequests => return Ok(Served::Overloaded),
        Unanswered::Failed(status) => status,
        Unanswered::Unreachable => refusal::unreachable(),
        Unanswered::Timeout => Status::failure(
            504,
            Reason::Timeout,
            "the API server did not answer in time",
        ),
    };
    Ok(Served::Status(status, Vec::new(), None))
}
