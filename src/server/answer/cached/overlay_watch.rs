//! Watches of APIServices that include the configured ones.
//!
//! Each watch has a store of its own. A task keeps that store up to date with the
//! events of upstream's APIServices and the changes of the configured ones. Users
//! share the room for these watches (`state/api_service_watches.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_source::{BodyLimit, JSON, ReadKind};
use apifront_watch_cache::read::{BypassReason, Shape, WatchPlan};
use apifront_watch_cache::reflector::Cache;
use apifront_watch_cache::store::{
    Change, Cursor, KeyScope, MalformedObject, Store, StoreWriter, StoredObject,
};
use apifront_watch_cache::watch::Watch;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures::FutureExt;
use kubernetes_wire::api::{ListOptions, Reason, Status};
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::resource_version::with_resource_version;

use super::newest::Newest;
use super::watch;
use super::watch::Start;
use crate::aggregation::{Aggregation, api_service_objects};
use crate::server::reply::refusal;
use crate::server::stage::Granted;
use crate::server::state::api_service_watches::WatchShare;
use crate::server::state::generation::Generation;
use crate::server::state::process_state::ProcessState;

/// The greatest size of a list of APIServices. Each APIService takes a kilobyte, and
/// one more for its certificate authority.
const MAX_LIST_BYTES: usize = 16 << 20;
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time between checks of the configured APIServices. Their changes are reported
/// with up to this delay.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The version of items that are made only for a comparison.
const NO_VERSION: u64 = 0;
/// The number of events that are read at once.
const MAX_BATCH_EVENTS: usize = 100;
/// Changes of configured APIServices within this time are reported again to a client
/// that resumes a watch, because it may have missed them. The history of other
/// resources reaches as far back.
const TOLD_AGAIN: TimeDelta = TimeDelta::minutes(5);

struct Follower {
    process: Arc<ProcessState>,
    base: Arc<Store>,
    cursor: Cursor,
    /// Writes to the store of the watch, which is dropped with the watch.
    merged: StoreWriter,
    /// The configured APIServices as they were last reported, without versions.
    told: BTreeMap<String, Bytes>,
    #[expect(dead_code, reason = "held until the watch is over")]
    share: WatchShare,
}

/// Opens a watch of upstream's APIServices, which are in `base`, and of the
/// configured ones. If the watch begins with a state, `newest` is that state. The
/// inner error is upstream's, or a 429.
pub(super) async fn open(
    granted: &Granted,
    base: Arc<Store>,
    newest: Newest,
    options: ListOptions,
    plan: WatchPlan,
    shape: Shape,
) -> Result<Result<Watch, Box<Status>>, BypassReason> {
    let generation = granted.generation();
    let watches = &generation.process.api_service_watches;
    let Ok(share) = watches.take(granted.user()) else {
        return Ok(Err(Box::new(too_many())));
    };
    let (items, version) = match plan {
        WatchPlan::From(version) => {
            let exact = format!("?resourceVersion={version}&resourceVersionMatch=Exact");
            match listed(&generation.cache, &exact).await {
                Ok(upstreams) => {
                    let items = upstreams.with(ours(&generation.aggregation, version));
                    (items, version)
                }
                Err(status) if status.code == 410 => {
                    let start = Start::Expired(version, status);
                    let lasts = generation.settings.min_request_timeout;
                    return watch::watch("", options, start, base, shape, lasts).map(Ok);
                }
                Err(status) => return Ok(Err(status)),
            }
        }
        _ => items_of_state(&base, newest)?,
    };
    let objects = objects(&base, items).map_err(|_| BypassReason::Representation)?;
    let (writer, merged) = Store::new(base.resource.clone(), objects, version);
    writer.present((*base.presentation()).clone());
    let start = match plan {
        WatchPlan::From(_) | WatchPlan::FromNow(_) => Start::Version {
            version,
            forwards: true,
        },
        WatchPlan::InitialEvents(_) | WatchPlan::Unmarked => Start::State(merged.snapshot()),
    };
    let min_request_timeout = generation.settings.min_request_timeout;
    let watch = watch::watch("", options, start, merged, shape, min_request_timeout)?;
    let resumed = matches!(plan, WatchPlan::From(_));
    follow(generation, base, writer, version, resumed, share);
    Ok(Ok(match plan {
        WatchPlan::Unmarked => watch.unmarked(),
        _ => watch,
    }))
}

/// Returns the objects of a state as JSON, and the state's version.
fn items_of_state(base: &Store, newest: Newest) -> Result<(Vec<Bytes>, u64), BypassReason> {
    let snapshot = newest.into_snapshot();
    let snapshot = snapshot.ok_or(BypassReason::NotProvenFresh)?;
    let envelope = &base.resource.envelope;
    let items = snapshot
        .iter(&KeyScope::All)
        .map(|object| object.item(Encoding::Json, envelope))
        .collect::<Option<_>>();
    let items = items.ok_or(BypassReason::Representation)?;
    Ok((items, snapshot.resource_version))
}

fn too_many() -> Status {
    let why = "too many APIServices are watched, please try again later";
    Status::failure(429, Reason::TooManyRequests, why.to_owned()).retry_soon()
}

/// Lists upstream's APIServices. The error is upstream's own, or says that upstream
/// cannot be reached.
async fn listed(cache: &Cache, query: &str) -> Result<api_service_objects::Upstreams, Box<Status>> {
    let path = format!(
        "/apis/{}/v1/{}{query}",
        api_service_objects::GROUP,
        api_service_objects::RESOURCE
    );
    let ask = async {
        let upstream = cache.upstream();
        let response = upstream.get(ReadKind::List, &path, JSON).await.ok()?;
        let code = response.status();
        let bound = BodyLimit::new(MAX_LIST_BYTES, LIST_TIMEOUT);
        let body = response.into_body().collect_bytes(bound);
        Some((code, body.await.ok()?))
    };
    let answer = tokio::time::timeout(LIST_TIMEOUT, ask).await.ok().flatten();
    let unreachable = || Box::new(refusal::unreachable());
    let (code, body) = answer.ok_or_else(unreachable)?;
    if !code.is_success() {
        let status = Status::from_json(&body).map(Box::new);
        return Err(status.unwrap_or_else(unreachable));
    }
    api_service_objects::Upstreams::parse(&body).ok_or_else(unreachable)
}

/// Returns the present configured APIServices by name, with this version.
fn ours(aggregation: &Aggregation, version: u64) -> impl Iterator<Item = (String, Bytes)> {
    aggregation.registered().iter().map(move |registered| {
        let service = &registered.service;
        let item =
            api_service_objects::item(service, &registered.condition(), registered.loaded, version);
        (service.name.clone(), item)
    })
}

fn objects(base: &Store, items: Vec<Bytes>) -> Result<Vec<StoredObject>, MalformedObject> {
    let parse = |item| StoredObject::parse(item, &base.resource.fields);
    items.into_iter().map(parse).collect()
}

/// Starts the task that keeps `merged` up to date while the watch reads it. Its
/// store is at `version`. `resumed` tells that the client has seen an earlier state.
fn follow(
    generation: &Generation,
    base: Arc<Store>,
    merged: StoreWriter,
    version: u64,
    resumed: bool,
    share: WatchShare,
) {
    let aggregation = &generation.aggregation;
    let mut told: BTreeMap<_, _> = ours(aggregation, NO_VERSION).collect();
    if resumed {
        let young = Utc::now().checked_sub_signed(TOLD_AGAIN);
        let young = young.unwrap_or(DateTime::<Utc>::MIN_UTC);
        for registered in aggregation.registered() {
            if registered
                .condition()
                .last_transition_time
                .max(registered.loaded)
                > young
                && let Some(item) = told.get_mut(&registered.service.name)
            {
                *item = Bytes::new();
            }
        }
    }
    // The history of `base` has each change. If it does not reach back to `version`,
    // a list gives the result of all changes.
    let reached = base.progress().resource_version >= version;
    let cursor = base.position(version).ok().filter(|_| reached);
    let mut follower = Follower {
        process: generation.process.clone(),
        cursor: cursor.unwrap_or_else(|| base.snapshot().cursor),
        base,
        merged,
        told,
        share,
    };
    tokio::spawn(async move {
        let mut whole = cursor.is_none();
        while follower.step(whole).await.is_some() {
            whole = false;
        }
        follower.merged.close();
    });
}

impl Follower {
    /// Reports the changes so far, and waits for more. Returns `None` when the watch
    /// is over.
    async fn step(&mut self, whole: bool) -> Option<()> {
        let mut progress = self.base.subscribe();
        progress.mark_unchanged();
        self.events()?;
        let aggregation = self.process.current_aggregation.load_full();
        let now = ours(&aggregation, NO_VERSION).collect();
        if whole || self.told != now {
            self.relist(now).await?;
        }
        // After this wait, the configured APIServices are checked in any case.
        let news = tokio::time::timeout(CHECK_INTERVAL, progress.changed()).await;
        let closed = news.is_ok_and(|changed| changed.is_err()) || progress.borrow().closed;
        (!closed && self.merged.is_held()).then_some(())
    }

    /// Applies upstream's events, in order.
    fn events(&mut self) -> Option<()> {
        // The store is kept until all is applied.
        let _merged = self.merged.store()?;
        // This is read first, because more events may come while others are read.
        // All events up to this version will have been applied.
        let known = self.base.progress().resource_version;
        loop {
            let events = self.base.read(&mut self.cursor, MAX_BATCH_EVENTS).ok()?;
            if events.is_empty() {
                break;
            }
            for event in events {
                let object = &event.object;
                // A configured APIService hides upstream's APIService of the same
                // name.
                if self.told.contains_key(object.key.as_str()) {
                    continue;
                }
                let envelope = &self.base.resource.envelope;
                let item = object.item(Encoding::Json, envelope)?;
                let deleted = event.change == Change::Deleted;
                self.merged.apply(deleted, item, Instant::now()).ok()?;
            }
        }
        self.merged.advance(known, Instant::now());
        Some(())
    }

    /// Reports the changes of the configured APIServices. They have no versions of
    /// their own. So each change gets a version that no object of upstream has,
    /// between the last report and a new list of upstream. The objects in that list
    /// are reported at the same time. If there is no free version, the change is
    /// reported later. Leases alone move upstream's version every few seconds.
    async fn relist(&mut self, now: BTreeMap<String, Bytes>) -> Option<()> {
        let cache = self.process.cache.clone();
        let list = async move { listed(&cache, "").await.map(Arc::new) };
        let Ok(upstreams) = self.process.api_service_watches.list(list.boxed()).await else {
            return Some(());
        };
        let merged = self.merged.store()?;
        let state = merged.snapshot();
        if upstreams.resource_version <= state.resource_version {
            return Some(());
        }
        let is_gone = |name: &str| !now.contains_key(name) && !upstreams.has(name);
        let objects_now = state.iter(&KeyScope::All);
        let deletions = objects_now.filter(|object| is_gone(object.key.name()));
        let mut versions = upstreams.versions_between(state.resource_version, deletions.count());
        let (mut ours, mut told) = (BTreeMap::new(), BTreeMap::new());
        for (name, item) in now {
            let before = self.told.get(&name);
            let is_told = before.is_some_and(|told| *told == item);
            let version = (!is_told).then(|| versions.next()).flatten();
            let object = match version {
                Some(version) => {
                    let object = with_resource_version(&item, version)?;
                    told.insert(name.clone(), item);
                    object
                }
                // It stays as it was reported.
                None => {
                    let (Some(before), Some(object)) = (before, state.get("", &name)) else {
                        continue;
                    };
                    told.insert(name.clone(), before.clone());
                    object.item(Encoding::Json, &merged.resource.envelope)?
                }
            };
            ours.insert(name, object);
        }
        let version = upstreams.resource_version;
        let listed = objects(&merged, Arc::unwrap_or_clone(upstreams).with(ours)).ok()?;
        self.merged.replace(listed, version, Instant::now());
        self.told = told;
        Some(())
    }
}
