//! Active health checks: `/readyz` of each API server and, less often, whether
//! requests to it come back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_source::{VERSION, release_in};
use arc_swap::ArcSwap;
use kube::client::Body;

use super::cdn_loop::LOOP_DETECTED;
use super::{Endpoint, Unreachable, Upstream, UpstreamError};
use crate::metrics::UpstreamKind;

/// The time that a server has to say that it is ready.
pub(super) const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// While no requests go to the upstream, checks are this many times rarer: a
/// failing request tells at once what a check would.
const RARER_IN_QUIET: u32 = 3;

/// The period of loop checks of a server that passes its health checks. A changed
/// address causes one, too.
pub(super) const LOOP_CHECK: Duration = Duration::from_secs(60);

/// The reason for the bad health of a server that sends requests back.
const LOOP: &str = "requests to it come back";

/// Checks the servers of the current upstream, forever.
pub async fn check_health(upstream: Arc<ArcSwap<Upstream>>) {
    loop {
        let current = upstream.load_full();
        current.check_health().await;
        let (checked, picked) = (Instant::now(), current.picked());
        // Meanwhile a request may find that no server can be reached. The pause
        // then becomes as short as after a failed check.
        loop {
            let pause = current.health_check_pause(current.picked() == picked);
            let left = pause.saturating_sub(checked.elapsed());
            if left.is_zero() {
                break;
            }
            tokio::time::sleep(left.min(RETRY_INTERVAL)).await;
        }
    }
}

impl Upstream {
    /// Checks every server once.
    pub async fn check_health(&self) {
        let checks = self.endpoints().iter().map(|endpoint| async move {
            let ready = self.readiness(endpoint).await;
            let loops = self.loops(endpoint).await;
            endpoint.loops(loops);
            endpoint.checked(ready.and(if loops { Err(LOOP.to_owned()) } else { Ok(()) }));
            endpoint.shared_connections.sweep(Instant::now());
        });
        futures::future::join_all(checks).await;
    }

    /// Returns the time between checks. It is short while no server answers, so
    /// that a server's return is noticed, and long while no requests go upstream.
    pub(crate) fn health_check_pause(&self, is_quiet: bool) -> Duration {
        let interval = self.timing.health_check_interval;
        match (self.any_healthy(), is_quiet) {
            (true, false) => interval,
            (true, true) => interval.saturating_mul(RARER_IN_QUIET),
            (false, _) => interval.min(RETRY_INTERVAL),
        }
    }

    /// Asks `/readyz`. The error is the reason why the server is not ready.
    async fn readiness(&self, endpoint: &Endpoint) -> Result<(), String> {
        let request = http::Request::get("/readyz")
            .body(Body::empty())
            .map_err(|e| e.to_string())?;
        if let Err(error) = endpoint.resolve().await {
            if Unreachable::by_io(&error).is_some() {
                endpoint.reached(false);
            }
            return Err(error.to_string());
        }
        let asked = self.timed(UpstreamKind::Health, endpoint, request);
        match tokio::time::timeout(CHECK_TIMEOUT, asked).await {
            // 401 and 403 come from a server that works but does not allow
            // apifront to ask.
            Ok(Ok(response)) if !response.status().is_server_error() => Ok(()),
            Ok(Ok(response)) => Err(format!("/readyz answers {}", response.status())),
            Ok(Err(error)) => {
                endpoint.silence.heard(false);
                let no_answer = matches!(error, UpstreamError::Timeout { .. });
                if no_answer || error.unreachable().is_some() {
                    endpoint.reached(false);
                }
                Err(error.to_string())
            }
            Err(_) => {
                endpoint.silence.heard(false);
                endpoint.reached(false);
                Err(format!("/readyz does not answer within {CHECK_TIMEOUT:?}"))
            }
        }
    }

    /// Tells whether requests to a server come back, to this process or to another.
    /// It asks for [`VERSION`], which all API servers answer, because an apifront
    /// forwards that path but answers `/readyz` itself. An answer other than the
    /// refusal of a loop does not count. The answer also tells the release.
    async fn loops(&self, endpoint: &Endpoint) -> bool {
        if !endpoint.is_reached() {
            return false;
        }
        if !endpoint.begins_loop_check(Instant::now()) {
            return endpoint.is_looping();
        }
        let began = Instant::now();
        let asked = async {
            let answer = self.get_from(endpoint, UpstreamKind::Health, VERSION);
            let answer = answer.await.ok()?;
            if answer.status() == LOOP_DETECTED {
                return Some(true);
            }
            if let Some(release) = release_in(answer).await {
                self.release.note(began, release).await;
            }
            Some(false)
        };
        let loops = tokio::time::timeout(CHECK_TIMEOUT, asked).await;
        loops.ok().flatten() == Some(true)
    }
}
