//! Watches of APIServices, configured ones among them.
//!
//! Each has a store of its own, which a task keeps up to date: with the events
//! of upstream's own, and with what becomes of ours.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use apifront_upstream::{BodyLimit, UpstreamKind};
use apifront_watch_cache::read::{BypassReason, Shape, WatchPlan};
use apifront_watch_cache::reflector::Cache;
use apifront_watch_cache::store::{Change, Cursor, MalformedObject, Scope, Store, StoredObject};
use apifront_watch_cache::watch::Watch;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use kubernetes_wire::api::{ListOptions, Status};
use kubernetes_wire::representation::Encoding;

use super::newest::Newest;
use super::watch;
use crate::aggregation::{Aggregation, api_service_objects};
use crate::server::answer::forward;
use crate::server::state::generation::Generation;
use crate::server::state::process_state::ProcessState;

/// A list of APIServices. Each is a kilobyte, and one more for its authority.
const MAX_LIST_BYTES: usize = 16 << 20;
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time between looks at the configured APIServices. Their changes are told
/// later by as much.
const PERIOD: Duration = Duration::from_secs(1);
/// The version of items that are made only to be compared.
const NO_VERSION: u64 = 0;
/// Events taken at once.
const BATCH: usize = 100;
/// A client that resumes a watch may have missed changes of ours in this time, and is
/// told again how they are: as long as the history of other resources reaches.
const TOLD_AGAIN: TimeDelta = TimeDelta::minutes(5);

struct Follower {
    process: Arc<ProcessState>,
    base: Arc<Store>,
    cursor: Cursor,
    /// The store of the watch, dropped with it.
    merged: Weak<Store>,
    /// The configured APIServices as they were last told, without a version, and the
    /// version they were told at.
    told: BTreeMap<String, (Bytes, u64)>,
}

/// A watch of upstream's own in `base` and of ours. `newest` is what it begins
/// with, where it begins with a state. The error is upstream's.
pub(super) async fn open(
    generation: &Generation,
    base: Arc<Store>,
    newest: Newest,
    options: ListOptions,
    plan: WatchPlan,
    shape: Shape,
) -> Result<Result<Watch, Box<Status>>, BypassReason> {
    let (items, version) = match plan {
        WatchPlan::From(version) => {
            let exact = format!("?resourceVersion={version}&resourceVersionMatch=Exact");
            match listed(&generation.cache, &exact).await {
                Ok(upstreams) => {
                    let items = upstreams.with(ours(&generation.aggregation, |_| version));
                    (items, version)
                }
                Err(status) => return Ok(Err(status)),
            }
        }
        _ => {
            let snapshot = newest.into_snapshot();
            let snapshot = snapshot.ok_or(BypassReason::NotProvenFresh)?;
            let envelope = &base.resource.envelope;
            let items = snapshot
                .iter(&Scope::All)
                .map(|object| object.item(Encoding::Json, envelope))
                .collect::<Option<_>>();
            let items = items.ok_or(BypassReason::Representation)?;
            (items, snapshot.resource_version)
        }
    };
    let objects = objects(&base, items).map_err(|_| BypassReason::Representation)?;
    let merged = Arc::new(Store::new(base.resource.clone(), objects, version));
    merged.present((*base.presentation()).clone());
    let start = match plan {
        WatchPlan::From(_) | WatchPlan::FromNow(_) => watch::Start::Version(version),
        WatchPlan::InitialEvents(_) | WatchPlan::Unmarked => watch::Start::State(merged.snapshot()),
    };
    let min_request_timeout = generation.config.serving.min_request_timeout;
    let watch = watch::watch(
        "",
        options,
        start,
        merged.clone(),
        shape,
        min_request_timeout,
    )?;
    let resumed = matches!(plan, WatchPlan::From(_));
    follow(generation, base, &merged, resumed);
    Ok(Ok(match plan {
        WatchPlan::Unmarked => watch.unmarked(),
        _ => watch,
    }))
}

/// Asks upstream for its APIServices. The error is its own, or says that there is no
/// answer.
async fn listed(cache: &Cache, query: &str) -> Result<api_service_objects::Upstreams, Box<Status>> {
    let path = format!(
        "/apis/{}/v1/{}{query}",
        api_service_objects::GROUP,
        api_service_objects::RESOURCE
    );
    let ask = async {
        let upstream = cache.upstream();
        let response = upstream.get(UpstreamKind::List, &path).await.ok()?;
        let code = response.status();
        let bound = BodyLimit::new(MAX_LIST_BYTES, LIST_TIMEOUT);
        let body = response.into_body().collect_bytes(bound);
        Some((code, body.await.ok()?))
    };
    let answer = tokio::time::timeout(LIST_TIMEOUT, ask).await.ok().flatten();
    let unreachable = || Box::new(forward::unreachable());
    let (code, body) = answer.ok_or_else(unreachable)?;
    if !code.is_success() {
        let status = Status::from_json(&body).map(Box::new);
        return Err(status.unwrap_or_else(unreachable));
    }
    api_service_objects::Upstreams::parse(&body).ok_or_else(unreachable)
}

/// The configured APIServices as they are now, by name, at the versions given.
fn ours(
    aggregation: &Aggregation,
    version: impl Fn(&str) -> u64,
) -> impl Iterator<Item = (String, Bytes)> {
    aggregation.registered().iter().map(move |registered| {
        let service = &registered.service;
        let version = version(&service.name);
        let item =
            api_service_objects::item(service, &registered.condition(), registered.loaded, version);
        (service.name.clone(), item)
    })
}

fn objects(base: &Store, items: Vec<Bytes>) -> Result<Vec<StoredObject>, MalformedObject> {
    let parse = |item| StoredObject::parse(item, &base.resource.fields);
    items.into_iter().map(parse).collect()
}

/// Keeps `merged` up to date for as long as somebody reads it. `resumed`: its
/// reader has seen some state of it before.
fn follow(generation: &Generation, base: Arc<Store>, merged: &Arc<Store>, resumed: bool) {
    let version = merged.progress().resource_version;
    let aggregation = &generation.aggregation;
    let known = ours(aggregation, |_| NO_VERSION).map(|(name, item)| (name, (item, version)));
    let mut told: BTreeMap<_, _> = known.collect();
    if resumed {
        let young = Utc::now().checked_sub_signed(TOLD_AGAIN);
        let young = young.unwrap_or(DateTime::<Utc>::MIN_UTC);
        for registered in aggregation.registered() {
            if registered
                .condition()
                .last_transition_time
                .max(registered.loaded)
                > young
                && let Some((item, _)) = told.get_mut(&registered.service.name)
            {
                *item = Bytes::new();
            }
        }
    }
    // Upstream's history tells changes one by one; without it, a list tells the result.
    let reached = base.progress().resource_version >= version;
    let cursor = base.position(version).ok().filter(|_| reached);
    let mut follower = Follower {
        process: generation.process.clone(),
        cursor: cursor.unwrap_or_else(|| base.snapshot().cursor),
        base,
        merged: Arc::downgrade(merged),
        told,
    };
    tokio::spawn(async move {
        let mut whole = cursor.is_none();
        while follower.step(whole).await.is_some() {
            whole = false;
        }
        if let Some(store) = follower.merged.upgrade() {
            store.close();
        }
    });
}

impl Follower {
    /// Waits for news and tells them. `None`: the watch is over.
    async fn step(&mut self, whole: bool) -> Option<()> {
        let mut progress = self.base.subscribe();
        progress.mark_unchanged();
        self.events()?;
        let aggregation = self.process.current_aggregation.load_full();
        let now = ours(&aggregation, |_| NO_VERSION).collect();
        if whole || self.differ(&now) {
            self.relist(&aggregation, now).await?;
        }
        // Either way there is a look at ours.
        let news = tokio::time::timeout(PERIOD, progress.changed()).await;
        let closed = news.is_ok_and(|changed| changed.is_err()) || progress.borrow().closed;
        (!closed && self.merged.strong_count() > 0).then_some(())
    }

    /// Tells upstream's events, in order.
    fn events(&mut self) -> Option<()> {
        let merged = self.merged.upgrade()?;
        loop {
            let events = self.base.read(&mut self.cursor, BATCH).ok()?;
            if events.is_empty() {
                break;
            }
            for event in events {
                let object = &event.object;
                // A configured APIService hides upstream's.
                if self.told.contains_key(object.key.as_str()) {
                    continue;
                }
                let envelope = &self.base.resource.envelope;
                let item = object.item(Encoding::Json, envelope)?;
                let deleted = event.change == Change::Deleted;
                merged.apply(deleted, item, Instant::now()).ok()?;
            }
        }
        merged.advance(self.base.progress().resource_version, Instant::now());
        Some(())
    }

    fn differ(&self, now: &BTreeMap<String, Bytes>) -> bool {
        let told = self.told.iter().map(|(name, (item, _))| (name, item));
        !told.eq(now.iter())
    }

    /// Ours changed. They have no versions of their own: upstream is asked for
    /// one, and what a list at that version has is told along. Upstream may not
    /// have moved since the last; then it is asked again, as soon as it has: its
    /// leases alone move it every few seconds.
    async fn relist(
        &mut self,
        aggregation: &Aggregation,
        now: BTreeMap<String, Bytes>,
    ) -> Option<()> {
        let Ok(upstreams) = listed(&self.process.cache, "").await else {
            return Some(());
        };
        let merged = self.merged.upgrade()?;
        let version = upstreams.resource_version;
        if version <= merged.progress().resource_version {
            return Some(());
        }
        let told: BTreeMap<_, _> = now
            .into_iter()
            .map(|(name, item)| {
                let before = self.told.get(&name).filter(|(told, _)| *told == item);
                let since = before.map_or(version, |(_, since)| *since);
                (name, (item, since))
            })
            .collect();
        let since = |name: &str| told.get(name).map_or(version, |(_, since)| *since);
        let items = upstreams.with(ours(aggregation, since));
        merged.replace(objects(&merged, items).ok()?, version, Instant::now());
        self.told = told;
        Some(())
    }
}
