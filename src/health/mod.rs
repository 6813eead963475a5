//! Answers `/livez`, `/readyz` and `/healthz` as kube-apiserver does
//! (k8s.io/apiserver `server/healthz`).
//!
//! ```text
//! registered ──▶ livez, healthz      failures that a restart would cure
//!            └─▶ readyz              also failures that only keep requests away
//! ```
//!
//! A check runs at each request, so it must not block: it reads state that other
//! parts of the process keep.

mod check;
mod response;

pub use check::{Check, CheckResult, Endpoint, Reason};
pub use response::HealthResponse;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

/// The check that at least one API server answers.
pub const UPSTREAM: &str = "upstream";
/// The check that preloaded resources are in memory. kube-apiserver's check for its
/// own caches has this name.
pub const INFORMER_SYNC: &str = "informer-sync";
/// The check that the stores saved by the previous process are in use or refused.
pub const SAVED_STORES: &str = "saved-stores";
/// The check that it is known which FlowSchemas apply.
pub const FLOW_SCHEMAS: &str = "flow-schemas";
/// The check that the configuration on disk is in force.
pub const CONFIG: &str = "config";
/// The check that no reads are answered in degraded mode.
pub const DEGRADED: &str = "degraded";

pub struct Health {
    checks: RwLock<Vec<Check>>,
    shutting_down: Arc<AtomicBool>,
    started: Instant,
    livez_grace_period: Duration,
}

impl Health {
    /// Registers `ping`, `log` and `shutdown`, which every process has.
    pub fn new(started: Instant, livez_grace_period: Duration) -> Self {
        let health = Self {
            checks: RwLock::default(),
            shutting_down: Arc::default(),
            started,
            livez_grace_period,
        };
        health.register(Check::new("ping", || Ok(())));
        // kube-apiserver checks that its log still flushes. This log has no buffer.
        health.register(Check::new("log", || Ok(())));
        let shutting_down = health.shutting_down.clone();
        health.register(
            Check::new("shutdown", move || {
                if shutting_down.load(Ordering::Relaxed) {
                    Err(Reason::new("process is shutting down"))
                } else {
                    Ok(())
                }
            })
            .readyz_only(),
        );
        health
    }

    /// Adds a check before `shutdown`, which comes last as in kube-apiserver.
    /// Replaces a check of the same name.
    pub fn register(&self, check: Check) {
        let mut checks = self.checks.write();
        if let Some(old) = checks.iter_mut().find(|c| c.name() == check.name()) {
            *old = check;
            return;
        }
        let end = match checks.split_last() {
            Some((last, others)) if last.name() == "shutdown" => others.len(),
            _ => checks.len(),
        };
        checks.insert(end, check);
    }

    /// Makes `/readyz` fail from now on. `/livez` does not change.
    pub fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
    }

    /// Tells whether this is a health path.
    pub fn has(&self, path: &str) -> bool {
        Endpoint::of_path(path).is_some()
    }

    /// Answers a health path; `None` for other paths. As in kube-apiserver, any
    /// method will do. The caller leaves the body out for HEAD.
    pub fn respond(&self, path: &str, query: &str, now: Instant) -> Option<HealthResponse> {
        let (endpoint, check) = Endpoint::of_path(path)?;
        let checks = self.checks.read();
        let in_grace = now.duration_since(self.started) < self.livez_grace_period;
        let selected: Vec<&Check> = checks.iter().filter(|c| c.is_part_of(endpoint)).collect();
        Some(match check {
            None => response::all(endpoint, &selected, in_grace, query),
            Some(name) => response::one(endpoint, &selected, in_grace, name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: &str = "no healthy server of 2";

    fn health(upstream_ok: bool) -> Health {
        let health = Health::new(Instant::now(), Duration::from_secs(30));
        health.register(
            Check::new("upstream", move || {
                upstream_ok.then_some(()).ok_or_else(|| Reason::new(ERROR))
            })
            .readyz_only(),
        );
        health.register(
            Check::new("poststarthook/start-cache", move || {
                upstream_ok.then_some(()).ok_or_else(|| Reason::new(ERROR))
            })
            .boot_sequence(),
        );
        health.register(Check::new("config", || Err(Reason::new("bad file"))).informational());
        health
    }

    fn answer(health: &Health, path: &str, query: &str) -> (u16, String) {
        let response = health.respond(path, query, Instant::now()).unwrap();
        let body = String::from_utf8(response.body.to_vec()).unwrap();
        (response.status.as_u16(), body)
    }

    /// The expected bytes were recorded from kube-apiserver 1.36.3, except for the
    /// names of checks.
    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let good = health(true);
        let bad = health(false);
        for (health, path, query, status, body) in [
            (&good, "/livez", "", 200, "ok"),
            (&good, "/readyz", "exclude=nope", 200, "ok"),
            (
                &good,
                "/livez",
                "verbose",
                200,
                "[+]ping ok\n[+]log ok\n[+]poststarthook/start-cache ok\nlivez check passed\n",
            ),
            (
                &good,
                "/readyz",
                "verbose=false&exclude=ping&exclude=zz&exclude=a%22b&exclude=",
                200,
                concat!(
                    "[+]ping excluded: ok\n[+]log ok\n[+]upstream ok\n",
                    "[+]poststarthook/start-cache ok\n",
                    "[+]config failed but not needed: reason withheld\n",
                    "[+]shutdown ok\n",
                    "warn: some health checks cannot be excluded: no matches for ",
                    "\"\",\"a\\\"b\",\"zz\"\n",
                    "readyz check passed\n",
                ),
            ),
            (
                &bad,
                "/readyz",
                "exclude=ping&exclude=qq",
                500,
                concat!(
                    "[+]ping excluded: ok\n[+]log ok\n[-]upstream failed: reason withheld\n",
                    "[-]poststarthook/start-cache failed: reason withheld\n",
                    "[+]config failed but not needed: reason withheld\n",
                    "[+]shutdown ok\n",
                    "warn: some health checks cannot be excluded: no matches for \"qq\"\n",
                    "readyz check failed\n",
                ),
            ),
            (
                &bad,
                "/readyz",
                "exclude=upstream&exclude=poststarthook/start-cache",
                200,
                "ok",
            ),
            // `/livez` ignores the failure in its grace period; `/healthz` never
            // does.
            (&bad, "/livez", "", 200, "ok"),
            (
                &bad,
                "/healthz",
                "",
                500,
                concat!(
                    "[+]ping ok\n[+]log ok\n",
                    "[-]poststarthook/start-cache failed: reason withheld\n",
                    "healthz check failed\n",
                ),
            ),
            (
                &good,
                "/readyz/upstream",
                "verbose&exclude=upstream",
                200,
                "ok",
            ),
            (
                &bad,
                "/readyz/upstream",
                "",
                500,
                "internal server error: no healthy server of 2\n",
            ),
            (
                &good,
                "/readyz/config",
                "",
                500,
                "internal server error: bad file\n",
            ),
            (&good, "/livez/upstream", "", 404, "404 page not found\n"),
            (&good, "/livez/", "", 404, "404 page not found\n"),
        ] {
            assert_eq!(
                answer(health, path, query),
                (status, body.to_owned()),
                "{path}?{query}"
            );
        }
    }

    #[test]
    fn headers_are_those_of_kube_apiserver() {
        let health = health(true);
        let nosniff = |path| {
            let response = health.respond(path, "", Instant::now()).unwrap();
            assert_eq!(response.content_type(), "text/plain; charset=utf-8");
            response.nosniff
        };
        assert!(nosniff("/livez"));
        assert!(!nosniff("/livez/ping"));
        assert!(nosniff("/livez/nope"));
        assert!(health.respond("/livezz", "", Instant::now()).is_none());
    }

    #[test]
    fn livez_forgives_the_boot_sequence_for_its_grace_period_only() {
        let bad = health(false);
        let later = Instant::now() + Duration::from_secs(31);
        let response = bad.respond("/livez", "", later).unwrap();
        assert_eq!(response.status, 500);
    }

    #[test]
    fn shutdown_fails_readyz_alone() {
        let health = health(true);
        health.shut_down();
        assert_eq!(answer(&health, "/livez", "").0, 200);
        assert_eq!(answer(&health, "/healthz", "").0, 200);
        let (status, body) = answer(&health, "/readyz", "");
        assert_eq!(status, 500);
        assert!(body.contains("[-]shutdown failed: reason withheld\n"));
        assert_eq!(
            answer(&health, "/readyz/shutdown", "").1,
            "internal server error: process is shutting down\n"
        );
    }
}
