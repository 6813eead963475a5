//! Tells whether `cache.degraded` applies: whether an outage lasts in which no API
//! server can be reached.

mod metrics;
mod settings;
mod state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_upstream::Upstream;
use parking_lot::Mutex;

pub use metrics::OutageMetrics;
pub use settings::{Degraded, DegradedReads};
use state::{Servers, State};

/// The time between two looks at the state of the API servers. A look costs nothing.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub struct Outage {
    state: Mutex<State>,
    metrics: OutageMetrics,
}

impl Outage {
    pub fn new(metrics: OutageMetrics) -> Self {
        Self {
            state: Mutex::default(),
            metrics,
        }
    }

    pub fn metrics(&self) -> &OutageMetrics {
        &self.metrics
    }

    pub fn is_degraded(&self) -> bool {
        self.state.lock().is_lost()
    }

    /// Returns the time for which no API server could be reached. It is known before
    /// degraded mode begins.
    pub fn lasts(&self, now: Instant) -> Option<Duration> {
        let since = self.state.lock().since()?;
        Some(now.saturating_duration_since(since))
    }

    /// Follows the current API servers, forever. `current` also returns the time after
    /// which degraded mode begins; `None` if there is no degraded mode.
    pub async fn run(&self, current: impl Fn() -> (Option<Duration>, Arc<Upstream>)) {
        loop {
            let (after, upstream) = current();
            self.look(after, &upstream, Instant::now());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn look(&self, after: Option<Duration>, upstream: &Upstream, now: Instant) {
        let mut state = self.state.lock();
        let before = *state;
        *state = match after {
            None => State::Fine,
            Some(after) => before.next(servers(upstream), after, now),
        };
        let is_lost = state.is_lost();
        if before.is_lost() == is_lost {
            return;
        }
        self.metrics.degraded(is_lost);
        let lasted = before
            .since()
            .map(|since| now.saturating_duration_since(since));
        if is_lost {
            tracing::warn!(
                after = ?lasted.unwrap_or_default(),
                "degraded mode begins: no API server can be reached"
            );
        } else {
            tracing::warn!(lasted = ?lasted.unwrap_or_default(), "degraded mode ends");
        }
    }
}

fn servers(upstream: &Upstream) -> Servers {
    if upstream.any_healthy() {
        Servers::Ready
    } else if upstream.is_lost() {
        Servers::Lost
    } else {
        Servers::Answering
    }
}
