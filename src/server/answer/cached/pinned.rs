//! Reads at the version that upstream's answer shows, for shadow mode.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::read::{BypassReason, reached};
use apifront_watch_cache::store::{Snapshot, Store, StoredObject};

use super::newest::{Newest, Resource};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Pin {
    /// Any state that is not older than this version, because the answer does not
    /// depend on it.
    NotOlderThan(u64),
    Version(u64),
    /// An object at its version.
    Object(u64),
    /// A state without the object.
    Absent,
}

/// A read at the state that upstream's answer shows.
pub(in crate::server) struct Pinned {
    pin: Pin,
    /// The version that the store had before upstream was asked.
    since: Option<u64>,
    /// Whether upstream read a state no older than the request.
    most_recent: bool,
    /// How long the read waits for the version.
    patience: Duration,
    /// Whether the read may use a version that the store has not heard of, in case
    /// its answer is the same as upstream's.
    trusts: bool,
    /// Set if the store had not heard of the version.
    pub(in crate::server) unheard: bool,
    /// The reason why the store has no such state.
    pub(in crate::server) not_comparable: Option<&'static str>,
    /// The moment at which the state was ready.
    pub(in crate::server) ready: Option<Instant>,
}

impl Pinned {
    pub(in crate::server) fn new(pin: Pin, patience: Duration) -> Self {
        Self {
            pin,
            since: None,
            most_recent: false,
            patience,
            trusts: false,
            unheard: false,
            not_comparable: None,
            ready: None,
        }
    }

    /// Sets the version that the store had before upstream was asked, and whether
    /// upstream read a state no older than the request.
    pub(in crate::server) fn since(mut self, version: Option<u64>, most_recent: bool) -> Self {
        self.since = version;
        self.most_recent = most_recent;
        self
    }

    /// If the store has not heard of the version, takes the newest state in its
    /// place. While nothing of a resource changes, the store hears of later versions
    /// only once a minute.
    pub(in crate::server) fn trusting(mut self) -> Self {
        self.trusts = true;
        self
    }

    /// Returns the state. `is_exact` tells whether the read itself names the
    /// version.
    pub(super) async fn newest(
        &mut self,
        resource: Resource<'_>,
        is_exact: bool,
    ) -> Result<Newest, BypassReason> {
        let config = &resource.generation.settings.cache;
        if resource.entry.lifecycle().disconnected_for(Instant::now()) > config.max_staleness {
            return Err(BypassReason::Stale);
        }
        let found = match self.pin {
            Pin::NotOlderThan(version) => {
                match reached(resource.store, version, self.patience).await {
                    true => Ok(whole(resource.store.snapshot())),
                    false => Err("not_reached"),
                }
            }
            Pin::Version(version) => self.state(resource.store, version, is_exact).await,
            Pin::Object(version) => self.object(resource, version).await,
            Pin::Absent => self.absent(resource).await,
        };
        self.ready = Some(Instant::now());
        found.map_err(|why| {
            self.not_comparable = Some(why);
            BypassReason::SnapshotGone
        })
    }

    async fn state(
        &mut self,
        store: &Store,
        version: u64,
        is_exact: bool,
    ) -> Result<Newest, &'static str> {
        if reached(store, version, self.patience).await {
            return store.snapshot_at(version).map(whole).ok_or("evicted");
        }
        let current = store.snapshot();
        if !self.trusts || is_exact || current.resource_version > version {
            return Err("not_reached");
        }
        self.unheard = true;
        let same = current.with(version, Vec::new(), Vec::new());
        Ok(whole(Arc::new(same)))
    }

    async fn object(&self, resource: Resource<'_>, version: u64) -> Result<Newest, &'static str> {
        let Resource { store, scope, .. } = resource;
        if !reached(store, version, self.patience).await {
            return Err("not_reached");
        }
        let at = |snapshot: &Snapshot| object_in(snapshot, resource);
        let current = store.snapshot();
        let before = self.since.and_then(|since| store.snapshot_at(since));
        let then = store.snapshot_at(version);
        let states = [Some(&current), before.as_ref(), then.as_ref()];
        let mut objects = states.into_iter().flatten().filter_map(|state| at(state));
        let is_it = |object: &Arc<StoredObject>| object.resource_version == version;
        if let Some(object) = objects.find(is_it) {
            return Ok(Newest::Object(Some(object)));
        }
        // Either the store knows that there was no such object, or it must have had
        // it before and after upstream read it.
        let had_to_have_it = self.most_recent && before.is_some() && self.since >= Some(version);
        match &then {
            Some(then) => Ok(Newest::Object(
                then.get(scope.namespace, scope.name).cloned(),
            )),
            None if had_to_have_it => Ok(Newest::Object(at(&current))),
            None => Err("evicted"),
        }
    }

    async fn absent(&mut self, resource: Resource<'_>) -> Result<Newest, &'static str> {
        let Resource { entry, store, .. } = resource;
        // Upstream read no later state than this.
        let version = entry.upstream_version().await.ok_or("not_proven_fresh")?;
        if !reached(store, version, self.patience).await {
            if !self.trusts {
                return Err("not_reached");
            }
            self.unheard = true;
        }
        let Some(object) = object_in(&store.snapshot(), resource) else {
            return Ok(Newest::Object(None));
        };
        let before = self.since.and_then(|since| store.snapshot_at(since));
        let before = before.ok_or("evicted")?;
        let was_there = object_in(&before, resource).is_some_and(|was| was.uid() == object.uid());
        match was_there && self.most_recent {
            // The object was there all the time.
            true => Ok(Newest::Object(Some(object))),
            false => Err("written_meanwhile"),
        }
    }
}

fn object_in(snapshot: &Snapshot, resource: Resource<'_>) -> Option<Arc<StoredObject>> {
    let scope = resource.scope;
    snapshot.get(scope.namespace, scope.name).cloned()
}

fn whole(snapshot: Arc<Snapshot>) -> Newest {
    Newest::State {
        snapshot,
        // Nobody will ask for the rest of the state.
        complete: false,
    }
}
