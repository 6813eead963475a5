//! Active health checks: `/readyz` of each API server.

use std::time::Duration;

use kube::client::Body;

use super::{Endpoint, Upstream};
use crate::metrics::UpstreamKind;

/// A server that takes longer to say that it is ready is not.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

const RETRY: Duration = Duration::from_secs(1);

impl Upstream {
    /// Checks every server once.
    pub async fn check_health(&self) {
        let checks = self.endpoints().iter().map(|endpoint| async move {
            endpoint.set_healthy(self.is_ready(endpoint).await);
        });
        futures::future::join_all(checks).await;
    }

    /// How long to wait between checks: briefly while nobody answers, so that
    /// a server's return is noticed.
    pub fn health_check_pause(&self) -> Duration {
        let interval = self.timing.health_check_interval;
        if self.any_healthy() {
            interval
        } else {
            interval.min(RETRY)
        }
    }

    async fn is_ready(&self, endpoint: &Endpoint) -> bool {
        let Ok(request) = http::Request::get("/readyz").body(Body::empty()) else {
            return false;
        };
        if let Err(error) = endpoint.resolve().await {
            tracing::debug!(server = %endpoint.name, %error, "cannot look up the API server");
            return false;
        }
        let asked = self.timed(UpstreamKind::Health, endpoint, request);
        match tokio::time::timeout(CHECK_TIMEOUT, asked).await {
            // 401 and 403 come from a server that works but does not let us ask.
            Ok(Ok(response)) => !response.status().is_server_error(),
            Ok(Err(error)) => {
                tracing::debug!(%error, "health check failed");
                false
            }
            Err(_) => false,
        }
    }
}
