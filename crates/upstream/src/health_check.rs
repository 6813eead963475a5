//! Active health checks: `/readyz` of each API server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use kube::client::Body;

use super::{Endpoint, Upstream};
use crate::metrics::UpstreamKind;

/// The time that a server has to say that it is ready.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

const RETRY: Duration = Duration::from_secs(1);

/// Checks the servers of the current upstream, forever.
pub async fn check_health(upstream: Arc<ArcSwap<Upstream>>) {
    loop {
        let current = upstream.load_full();
        current.check_health().await;
        tokio::time::sleep(current.health_check_pause()).await;
    }
}

impl Upstream {
    /// Checks every server once.
    pub async fn check_health(&self) {
        let checks = self.endpoints().iter().map(|endpoint| async move {
            endpoint.checked(self.readiness(endpoint).await);
            endpoint.shared_connections.sweep(Instant::now());
        });
        futures::future::join_all(checks).await;
    }

    /// Returns the time to wait between checks. It is short while no server
    /// answers, so that a server's return is noticed.
    pub(crate) fn health_check_pause(&self) -> Duration {
        let interval = self.timing.health_check_interval;
        if self.any_healthy() {
            interval
        } else {
            interval.min(RETRY)
        }
    }

    /// Asks `/readyz`. The error says why the server is not ready.
    async fn readiness(&self, endpoint: &Endpoint) -> Result<(), String> {
        let request = http::Request::get("/readyz")
            .body(Body::empty())
            .map_err(|e| e.to_string())?;
        endpoint.resolve().await.map_err(|e| e.to_string())?;
        let asked = self.timed(UpstreamKind::Health, endpoint, request);
        match tokio::time::timeout(CHECK_TIMEOUT, asked).await {
            // 401 and 403 come from a server that works but does not allow
            // apifront to ask.
            Ok(Ok(response)) if !response.status().is_server_error() => Ok(()),
            Ok(Ok(response)) => Err(format!("/readyz answers {}", response.status())),
            Ok(Err(error)) => {
                endpoint.silence.heard(false);
                Err(error.to_string())
            }
            Err(_) => {
                endpoint.silence.heard(false);
                Err(format!("/readyz does not answer within {CHECK_TIMEOUT:?}"))
            }
        }
    }
}
