//! The task that keeps upstream's release and the kinds of configured
//! deprecations up to date.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::server::state::generation::Generation;

/// The time between requests for upstream's release. It can be long, because an
/// upgrade of API servers takes minutes.
const LEARN_EVERY: Duration = Duration::from_secs(30);

/// The time between requests while upstream has not answered.
const LEARN_SOON: Duration = Duration::from_secs(1);

pub(in crate::server) async fn run(current: Arc<ArcSwap<Generation>>) {
    loop {
        let generation = current.load_full();
        let known = &generation.deprecations;
        let upstream = generation.upstream.load_full();
        known.learn_release(&upstream).await;
        let entries = &generation.settings.deprecations;
        known.forget_kinds(entries);
        let versions: BTreeSet<_> = entries.iter().map(|e| &e.group_version).collect();
        let backends = generation.aggregation.upstreams();
        for version in versions {
            let backend = backends.iter().find(|(served, _)| served == version);
            let server = backend.map_or_else(|| upstream.clone(), |(_, b)| b.load_full());
            known.learn_kinds(&server, version).await;
        }
        let pause = match known.release() {
            Some(_) => LEARN_EVERY,
            None => LEARN_SOON,
        };
        // The next round begins after the pause, or when the task is woken.
        let _ = tokio::time::timeout(pause, known.woken()).await;
    }
}
