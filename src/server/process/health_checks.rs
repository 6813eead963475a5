//! The health checks of the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_upstream::Upstream;
use apifront_watch_cache::ResourcePattern;
use apifront_watch_cache::reflector::Cache;
use arc_swap::ArcSwap;

use crate::config::LiveConfig;
use crate::flow::Flow;
use crate::health::{
    CONFIG, Check, DEGRADED, FLOW_SCHEMAS, Health, INFORMER_SYNC, Reason, SAVED_STORES, UPSTREAM,
};
use crate::outage::Outage;

/// How long readiness waits for the cluster's FlowSchemas. After that, requests are
/// taken without them.
const FLOW_SCHEMAS_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn health(
    live: &Arc<LiveConfig>,
    cache: &Arc<Cache>,
    upstream: &Arc<ArcSwap<Upstream>>,
    outage: &Arc<Outage>,
    flow: &Arc<Flow>,
) -> Arc<Health> {
    let health = Health::new(Instant::now(), live.load().serving.livez_grace_period);
    let reachable = upstream_is_reachable(upstream.clone(), live.clone(), outage.clone());
    health.register(reachable.readyz_only());
    health.register(preloaded_are_filled(live.clone(), cache.clone()).readyz_only());
    if live.load().cache.persistence.is_some() {
        health.register(saved_are_read(cache.clone()).readyz_only());
    }
    health.register(flow_schemas_are_known(flow.clone(), Instant::now()).readyz_only());
    health.register(config_is_applied(live.clone()).informational());
    health.register(is_not_degraded(outage.clone()).informational());
    Arc::new(health)
}

/// During an outage, apifront stays ready while degraded mode has answers. It has
/// none when the outage is older than the oldest answer that it may give.
fn upstream_is_reachable(
    upstream: Arc<ArcSwap<Upstream>>,
    live: Arc<LiveConfig>,
    outage: Arc<Outage>,
) -> Check {
    Check::new(UPSTREAM, move || {
        let config = live.load();
        let lasts = outage.lasts(Instant::now());
        let bridged = config.degraded.as_ref().zip(lasts);
        let bridged = bridged.is_some_and(|(degraded, lasts)| lasts < degraded.bounds.max_age);
        (upstream.load().any_healthy() || bridged)
            .then_some(())
            .ok_or_else(|| Reason::new("no API server is healthy"))
    })
}

fn is_not_degraded(outage: Arc<Outage>) -> Check {
    Check::new(DEGRADED, move || {
        if !outage.is_degraded() {
            return Ok(());
        }
        let lasts = outage.lasts(Instant::now()).unwrap_or_default().as_secs();
        Err(Reason::of_time("no API server could be reached for", lasts))
    })
}

fn preloaded_are_filled(live: Arc<LiveConfig>, cache: Arc<Cache>) -> Check {
    Check::new(INFORMER_SYNC, move || {
        let preloaded = live.load().cache.preload.clone();
        let entries = cache.entries();
        let filled = |pattern: &ResourcePattern| {
            entries
                .iter()
                .any(|e| pattern.matches(&e.gvr) && e.store().is_some())
        };
        let mut missing = preloaded.iter().filter(|p| !filled(p)).peekable();
        match missing.peek() {
            None => Ok(()),
            Some(_) => Err(Reason::of_resources("not filled yet", missing)),
        }
    })
}

/// Until the saved stores are in use, requests that they could answer would be
/// forwarded.
fn saved_are_read(cache: Arc<Cache>) -> Check {
    Check::new(SAVED_STORES, move || match cache.resuming() {
        0 => Ok(()),
        left => {
            let left = u64::try_from(left).unwrap_or(u64::MAX);
            Err(Reason::of_count(left, "saved stores are still being read"))
        }
    })
}

/// An API server that does not show its FlowSchemas must not delay readiness for
/// long.
fn flow_schemas_are_known(flow: Arc<Flow>, started: Instant) -> Check {
    Check::new(FLOW_SCHEMAS, move || {
        let known = flow.is_settled() || started.elapsed() > FLOW_SCHEMAS_WITHIN;
        known
            .then_some(())
            .ok_or_else(|| Reason::new("not known yet"))
    })
}

/// The reason leaves out the error itself. It quotes the file, which names users,
/// groups and objects. The log and `/status.json` have it.
fn config_is_applied(live: Arc<LiveConfig>) -> Check {
    const WHERE: &str = "the configuration on disk is not in force: the log says why";
    Check::new(CONFIG, move || match live.last_error() {
        None => Ok(()),
        Some(_) => Err(Reason::new(WHERE)),
    })
}
