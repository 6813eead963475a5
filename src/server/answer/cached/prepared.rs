//! The last step of a read from the cache: its state is known to be recent enough.

use std::sync::Arc;

use apifront_watch_cache::read::{
    BypassReason, HitCost, ListPlan, Shape, ShapeKind, Unanswered, WatchPlan,
};
use apifront_watch_cache::reflector::Entry;
use apifront_watch_cache::store::Store;
use http::{HeaderMap, HeaderValue};
use kubernetes_wire::api::{ListOptions, Status};

use super::degraded::Degraded;
use super::located::{Fitted, Located, Target};
use super::newest::{self, Newest};
use super::pinned::Pinned;
use super::plan::Plan;
use super::served::Served;
use super::too_old_version;
use super::watch::Start;
use super::{get, list, overlay, overlay_watch, shape, sharded, watch};
use crate::flow::{Admitted, HeldBytes};
use crate::server::offload::OffloadUser;
use crate::server::reply::watch_stream::WatchHead;
use crate::server::reply::{compression, deprecation};
use crate::server::stage::Granted;
use crate::server::stage::context::{CacheResult, Hit};

/// Everything that an answer needs. No further request goes to upstream.
pub(super) struct Prepared<'a> {
    granted: &'a Granted,
    headers: &'a HeaderMap,
    target: Target<'a>,
    newest: Newest,
    /// The requests to upstream that the answer needed.
    cost: HitCost,
    warnings: Vec<HeaderValue>,
}

impl<'a> Prepared<'a> {
    /// Waits until the state is as recent as the plan demands. Returns the plan, too.
    pub(super) async fn make(
        granted: &'a Granted,
        headers: &'a HeaderMap,
        fitted: Fitted<'a>,
        pinned: Option<&mut Pinned>,
        degraded: Option<&Degraded>,
    ) -> Result<(Self, Plan), Unanswered> {
        let generation = granted.generation();
        let Fitted { plan, target } = fitted;
        let resource = target.located.resource(granted);
        let (newest, cost) = match pinned {
            Some(pinned) => {
                let newest = pinned.newest(resource, plan.is_exact()).await?;
                (newest, HitCost::Nothing)
            }
            None => newest::newest(resource, &plan, degraded.is_some()).await?,
        };
        let Located {
            entry,
            store,
            scope,
        } = &target.located;
        if !has_current_columns(&target.shape, &newest, entry, store).await {
            return Err(BypassReason::NotProvenFresh.into());
        }
        let newest = newest::overlaid(newest, generation, store);
        let mut warnings = deprecation::of_cached(generation, scope.gvr, entry, store).await;
        warnings.extend(degraded.and_then(|degraded| degraded.warning(scope.gvr)));
        let prepared = Self {
            granted,
            headers,
            target,
            newest,
            cost,
            warnings,
        };
        Ok((prepared, plan))
    }

    /// A watch that waits for upstream gives its seats back.
    pub(super) async fn answer(
        self,
        plan: Plan,
        seats: Option<&mut Admitted>,
    ) -> Result<Served, BypassReason> {
        match plan {
            Plan::Get(_) => self.get().await,
            Plan::List(options, plan) => self.list(options, plan).await,
            Plan::Watch(options, plan) => self.watch_fitted(options, plan, seats).await,
        }
    }

    fn hit(&self, version: u64) -> Hit {
        let cost = self.cost;
        Hit { version, cost }
    }

    async fn get(self) -> Result<Served, BypassReason> {
        let Located { store, scope, .. } = &self.target.located;
        let hit = self.hit(self.newest.resource_version(store));
        let object = self.newest.object(scope.namespace, scope.name);
        let Some(object) = object else {
            let status = Status::not_found(&scope.gvr.group_resource(), scope.name);
            return Ok(Served::Status(status, self.warnings, Some(hit)));
        };
        let by = OffloadUser::new(self.granted);
        let body = match get::body(store, object, self.target.shape.clone(), by).await {
            Ok(body) => (vec![body], HeldBytes::default()),
            Err(unmade) => return unmade.served(),
        };
        match shape::answer(body, &self.target, self.headers, &self.warnings, by).await {
            Ok(answer) => Ok(Served::Answer(answer.out_of(CacheResult::Hit(hit)))),
            Err(unmade) => unmade.served(),
        }
    }

    async fn list(self, options: ListOptions, plan: ListPlan) -> Result<Served, BypassReason> {
        let (by, cost) = (OffloadUser::new(self.granted), self.cost);
        let Located { store, scope, .. } = &self.target.located;
        let wanted = list::Wanted {
            extent: list::Extent::Namespace(scope.namespace.to_owned()),
            options,
            plan,
            shape: self.target.shape.clone(),
            gzip: compression::is_of_parts(self.target.representation, self.headers),
        };
        let (body, version) = match list::make(wanted, store, self.newest, by).await {
            Ok(made) => made,
            Err(unmade) => return unmade.served(),
        };
        match shape::list(body, &self.target, self.headers, &self.warnings, by).await {
            Ok(answer) => {
                let hit = Hit { version, cost };
                Ok(Served::Answer(answer.out_of(CacheResult::Hit(hit))))
            }
            Err(unmade) => unmade.served(),
        }
    }

    /// Makes the watch, and compresses it if that was agreed.
    async fn watch_fitted(
        self,
        options: ListOptions,
        plan: WatchPlan,
        seats: Option<&mut Admitted>,
    ) -> Result<Served, BypassReason> {
        let (granted, headers) = (self.granted, self.headers);
        let compressed = self.target.located.store.presentation().compresses_watches
            && granted.handshake().is_none()
            && watch::is_compressed(&options, headers);
        let served = if overlay::is_for(granted.generation(), self.target.located.scope.gvr) {
            self.watch_overlaid(options, plan).await
        } else {
            self.watch(options, plan, seats).await
        };
        Ok(match served? {
            Served::Watch(watch, head) => {
                let watch = watch::fitted(*watch, compressed, headers);
                Served::Watch(Box::new(watch), head)
            }
            served => served,
        })
    }

    async fn watch_overlaid(
        self,
        options: ListOptions,
        plan: WatchPlan,
    ) -> Result<Served, BypassReason> {
        let shape_header = self.target.shape_header();
        let head = head(self.warnings, self.cost, shape_header);
        let store = self.target.located.store;
        let opened = overlay_watch::open(
            self.granted,
            store,
            self.newest,
            options,
            plan,
            self.target.shape,
        )
        .await?;
        Ok(match opened {
            Ok(watch) => Served::Watch(Box::new(watch), head),
            Err(status) => Served::Status(*status, head.warnings, None),
        })
    }

    async fn watch(
        self,
        options: ListOptions,
        plan: WatchPlan,
        seats: Option<&mut Admitted>,
    ) -> Result<Served, BypassReason> {
        let unmarked = plan == WatchPlan::Unmarked;
        let start = match plan {
            WatchPlan::From(version) => {
                let located = &self.target.located;
                too_old_version::after(self.granted, located, &options, version, seats).await
            }
            WatchPlan::FromNow(_) => Start::Version {
                version: self.newest.resource_version(&self.target.located.store),
                forwards: !sharded::is_kept(self.granted),
            },
            WatchPlan::InitialEvents(_) | WatchPlan::Unmarked => self
                .newest
                .into_snapshot()
                .map(Start::State)
                .ok_or(BypassReason::NotProvenFresh)?,
        };
        let cost = match start {
            Start::Earlier(..) => HitCost::Events,
            _ => self.cost,
        };
        let lasts = self.granted.generation().settings.min_request_timeout;
        let head = head(self.warnings, cost, self.target.shape_header());
        let Located { store, scope, .. } = self.target.located;
        let namespace = scope.namespace;
        let watch = watch::watch(namespace, options, start, store, self.target.shape, lasts)?;
        let watch = if unmarked { watch.unmarked() } else { watch };
        Ok(Served::Watch(Box::new(watch), head))
    }
}

fn head(warnings: Vec<HeaderValue>, cost: HitCost, shape: Option<HeaderValue>) -> WatchHead {
    WatchHead {
        warnings,
        cost,
        view: None,
        shape,
    }
}

/// Tells whether the columns of a Table fit the objects in it. The definition of the
/// resource may have changed since the columns were chosen.
async fn has_current_columns(shape: &Shape, newest: &Newest, entry: &Entry, store: &Store) -> bool {
    let ShapeKind::Table(printer, _) = &shape.kind else {
        return true;
    };
    // This object was read from upstream by itself.
    let alone = matches!(newest, Newest::Object(_));
    if alone && !entry.is_listed_by_current_definition().await {
        return false;
    }
    let shown = store.presentation();
    shown
        .printer
        .as_ref()
        .is_some_and(|now| Arc::ptr_eq(now, printer))
}
