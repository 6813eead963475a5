//! Takes the FlowSchemas and PriorityLevelConfigurations from the cache to flow
//! control. No request waits for them. Until they are known, and if upstream serves
//! none, the objects of a new cluster apply.

use std::sync::Arc;
use std::time::Duration;

use apifront_watch_cache::reflector::{Selection, Unavailable};
use apifront_watch_cache::store::{Progress, Store};
use arc_swap::ArcSwap;
use kubernetes_wire::api::GroupVersionResource;
use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use super::generation::Generation;
use super::settings::ServerSettings;
use crate::flow::{ObjectsJson, flow_schemas, priority_levels};

/// How long one look waits for the first lists.
const FILLS_WITHIN: Duration = Duration::from_secs(1);

/// The time between two looks whether the objects can be read.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The time between two looks while upstream refuses the objects.
const REFUSED_LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// The pause after a change. Many objects are often applied at once.
const CHANGE_DELAY: Duration = Duration::from_millis(50);

/// Lets the cache hold what apifront itself needs, whichever reads the configuration
/// lets the cache answer. Hidden resources are not served and therefore decide
/// nothing, as in kube-apiserver.
struct Needed<'a>(&'a ServerSettings);

impl Selection for Needed<'_> {
    fn allows(&self, gvr: &GroupVersionResource) -> bool {
        self.0.cache.pins(gvr) && self.0.runtime_config.is_resource_enabled(gvr)
    }

    fn trusts(&self, gvr: &GroupVersionResource) -> bool {
        self.0.cache.trusts(gvr)
    }
}

#[derive(Clone)]
struct Stores {
    flow_schemas: Arc<Store>,
    priority_levels: Arc<Store>,
}

/// Configures flow control with each change of the objects, for ever.
pub(in crate::server) async fn follow(current: Arc<ArcSwap<Generation>>) {
    // The objects in force: `Ok` for the cluster's own, or the reason why those of a
    // new cluster are in force.
    let mut in_force = Err(Unavailable::Filling);
    loop {
        let generation = current.load_full();
        let why = match Stores::find(&generation).await {
            Ok(stores) => {
                if in_force != Ok(()) {
                    tracing::info!("flow schemas of the cluster in force");
                }
                in_force = Ok(());
                drop(generation);
                stores.configure_until_closed(&current).await;
                continue;
            }
            Err(why) => why,
        };
        // While the objects are listed again, those in force stay.
        if why != Unavailable::Filling && in_force != Err(why) {
            if generation.settings.enable_priority_and_fairness {
                let why = reason(why);
                tracing::warn!(why, "flow schemas of a new cluster in force");
            }
            if in_force == Ok(()) {
                generation.flow.configure(None);
            }
            in_force = Err(why);
            generation.flow.settle();
        }
        drop(generation);
        sleep(match why {
            Unavailable::Refused => REFUSED_LOOK_INTERVAL,
            _ => LOOK_INTERVAL,
        })
        .await;
    }
}

fn reason(why: Unavailable) -> &'static str {
    match why {
        Unavailable::Refused => {
            "the API server has none, or does not let apifront list and watch them"
        }
        Unavailable::Excluded | Unavailable::Aggregated | Unavailable::Withdrawn => {
            "flowcontrol.apiserver.k8s.io is hidden"
        }
        Unavailable::Filling => "the cluster's are not known yet",
        Unavailable::Full | Unavailable::MemoryLimit => "there is no memory for the cluster's",
    }
}

impl Stores {
    async fn find(generation: &Generation) -> Result<Self, Unavailable> {
        let needed = Needed(&generation.settings);
        let (schemas, levels) = (flow_schemas(), priority_levels());
        let lookup = |gvr| generation.cache.lookup_within(gvr, &needed, FILLS_WITHIN);
        let (schemas, levels) = tokio::join!(lookup(&schemas), lookup(&levels));
        Ok(Self {
            flow_schemas: schemas?.store().ok_or(Unavailable::Filling)?,
            priority_levels: levels?.store().ok_or(Unavailable::Filling)?,
        })
    }

    /// Configures flow control with each change, until a store is closed or the
    /// objects are not needed any more.
    async fn configure_until_closed(&self, current: &ArcSwap<Generation>) {
        let mut schemas = self.flow_schemas.subscribe();
        let mut levels = self.priority_levels.subscribe();
        let mut configured = None;
        loop {
            let closed = is_closed(&mut schemas) | is_closed(&mut levels);
            if closed || !Needed(&current.load().settings).allows(&flow_schemas()) {
                return;
            }
            let stores = self.clone();
            let read = tokio::task::spawn_blocking(move || stores.objects());
            match read.await {
                // A bookmark changes the version, but no object.
                Ok(Some(objects)) if configured.as_ref() == Some(&objects) => {}
                Ok(Some(objects)) => {
                    let generation = current.load();
                    generation.flow.configure(Some(&objects));
                    generation.flow.settle();
                    configured = Some(objects);
                }
                Ok(None) | Err(_) => tracing::warn!("flow schemas cannot be read from the cache"),
            }
            loop {
                tokio::select! {
                    changed = schemas.changed() => if changed.is_ok() { break },
                    changed = levels.changed() => if changed.is_ok() { break },
                    () = sleep(LOOK_INTERVAL) => {}
                }
                if !Needed(&current.load().settings).allows(&flow_schemas()) {
                    return;
                }
            }
            sleep(CHANGE_DELAY).await;
        }
    }

    /// Returns all objects as JSON, or `None` if one of them cannot be written as
    /// JSON.
    fn objects(&self) -> Option<ObjectsJson> {
        let json = |store: &Store| store.snapshot().json(&store.resource.envelope);
        Some(ObjectsJson {
            flow_schemas: json(&self.flow_schemas)?,
            priority_levels: json(&self.priority_levels)?,
        })
    }
}

fn is_closed(progress: &mut Receiver<Progress>) -> bool {
    progress.borrow_and_update().closed
}
