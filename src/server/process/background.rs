//! Tasks that run for as long as the process.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::server::state::generation::Generation;

/// Keeps the cache within the limits of the current configuration.
pub(super) async fn tend(current: Arc<ArcSwap<Generation>>) {
    let cache = current.load().cache.clone();
    cache.run_eviction(|| current.load().config.clone()).await;
}

/// Compares the cache with upstream, as often as the current configuration
/// says.
pub(super) async fn self_check(current: Arc<ArcSwap<Generation>>) {
    let process = current.load().process.clone();
    let interval = || current.load().config.cache.self_check_interval;
    let (checks, metrics) = (&process.self_checks, &process.metrics.cache);
    checks.run(&process.cache, metrics, interval).await;
}
