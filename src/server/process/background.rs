//! Tasks that run for as long as the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_upstream::Upstream;
use arc_swap::ArcSwap;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::learn_deprecations;
use super::reload::Reloader;
use crate::config::LiveConfig;
use crate::server::answer::make_ahead;
use crate::server::offload::threads;
use crate::server::state::generation::Generation;
use crate::server::state::{flow_objects, local_groups};
use crate::status::SAMPLE_EVERY;

/// The time between two attempts to learn the user of a personal apifront.
const LEARN_EVERY: Duration = Duration::from_secs(1);

/// The time between two looks at the orders of queries, and the longest time that one
/// may take to follow its objects.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
const FOLLOWED_WITHIN: Duration = Duration::from_millis(100);

/// Starts all tasks. Dropping the result ends them.
pub(super) fn start(reloader: Reloader, live: Arc<LiveConfig>) -> JoinSet<()> {
    let current = reloader.current.clone();
    let process = current.load().process.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(apifront_upstream::check_health(reloader.upstream.clone()));
    tasks.spawn(watch_for_outages(
        current.clone(),
        reloader.upstream.clone(),
    ));
    let authorizer = reloader.access.authorizer();
    tasks.spawn(async move { authorizer.keep_recent().await });
    tasks.spawn(process.discovery.clone().run());
    tasks.spawn(process.flow.clone().run());
    tasks.spawn(flow_objects::follow(current.clone()));
    tasks.spawn(local_groups::follow(current.clone()));
    tasks.spawn(learn_own_user(current.clone()));
    tasks.spawn(self_check(current.clone()));
    tasks.spawn(learn_deprecations::run(current.clone()));
    tasks.spawn(save(current.clone()));
    tasks.spawn(make_ahead::run(process.cache.clone()));
    tasks.spawn(sample(current.clone()));
    tasks.spawn(follow_rights(current.clone()));
    tasks.spawn(keep_orders(current.clone()));
    let views = process.clone();
    tasks.spawn(async move { views.views.run().await });
    tasks.spawn(evict(current));
    tasks.spawn(process.openapi.clone().run());
    tasks.spawn(reloader.reload_forever(live));
    tasks
}

async fn evict(current: Arc<ArcSwap<Generation>>) {
    let cache = current.load().cache.clone();
    cache.run_eviction(|| current.load().settings.clone()).await;
}

async fn watch_for_outages(current: Arc<ArcSwap<Generation>>, upstream: Arc<ArcSwap<Upstream>>) {
    let outage = current.load().outage.clone();
    let now = || {
        let degraded = current.load().settings.degraded.as_ref().map(|d| d.after);
        (degraded, upstream.load_full())
    };
    outage.run(now).await;
}

/// Learns the user of a personal apifront, and learns it again when the upstream is
/// replaced.
async fn learn_own_user(current: Arc<ArcSwap<Generation>>) {
    let own_user = current.load().own_user.clone();
    let mut learned_of: Option<Arc<Upstream>> = None;
    loop {
        let (has_own_user, upstream) = {
            let generation = current.load();
            let has_own_user = generation.settings.has_own_user;
            (has_own_user, generation.upstream.load_full())
        };
        let is_known = learned_of
            .as_ref()
            .is_some_and(|of| Arc::ptr_eq(of, &upstream));
        if has_own_user && !is_known {
            own_user.forget();
            if own_user.learn(&*upstream).await {
                learned_of = Some(upstream);
            }
        }
        tokio::time::sleep(LEARN_EVERY).await;
    }
}

/// Reads RBAC as it changes, if views need it.
async fn follow_rights(current: Arc<ArcSwap<Generation>>) {
    let process = current.load().process.clone();
    let max_staleness = || {
        let settings = &current.load().settings;
        let views = settings.views.as_ref();
        views.map(|_| settings.cache.max_staleness)
    };
    process.rights.run(max_staleness).await;
}

/// Brings the orders of queries to the newest states, and drops those that are not used.
/// An order that takes long to follow is made again when it is asked for.
async fn keep_orders(current: Arc<ArcSwap<Generation>>) {
    let process = current.load().process.clone();
    let mut ticks = tokio::time::interval(FOLLOW_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let orders = process.query_orders.clone();
        for order in orders.drop_unused(process.cache.has_room(1)) {
            let followed = order.clone();
            let follow = move || {
                let began = Instant::now();
                followed.follow(&|| began.elapsed() < FOLLOWED_WITHIN)
            };
            if threads::run(follow).await != Some(true) {
                orders.forget(&order);
            }
        }
    }
}

/// Saves the cache as often as the current settings say.
async fn save(current: Arc<ArcSwap<Generation>>) {
    let cache = current.load().cache.clone();
    cache.run_saving(|| current.load().settings.clone()).await;
}

async fn sample(current: Arc<ArcSwap<Generation>>) {
    let mut ticks = tokio::time::interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let generation = current.load_full();
        let now = Instant::now();
        generation.history.take(generation.reading(now));
        generation.talkers.keep_recent(now);
    }
}

async fn self_check(current: Arc<ArcSwap<Generation>>) {
    let process = current.load().process.clone();
    let interval = || current.load().settings.cache.self_check_interval;
    process.self_checks.run(&process.cache, interval).await;
}
