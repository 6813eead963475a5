//! Checks whether a backend answers for an APIService, like kube-aggregator's
//! `remote_available_controller`: of several GETs for the version's discovery
//! document, one must succeed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apifront_upstream::{Upstream, UpstreamKind};
use arc_swap::ArcSwap;
use chrono::{DateTime, Utc};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kubernetes_wire::api::GroupVersion;
use tokio::sync::{Notify, watch};

use super::condition::{Condition, Reason};
use super::metrics::AvailabilityMetrics;

/// The number of simultaneous GETs in one check. If a name has several servers, one
/// working server is enough.
const CONCURRENT_ATTEMPTS: usize = 5;
/// The time limit of a GET. A backend that needs longer for its own discovery
/// document is not available.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between checks of a working backend. Failures in between go unnoticed.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The pause after a failed check, which doubles with each further failure up to
/// [`RECHECK_INTERVAL`]. So a backend's return is noticed at once, and a backend that
/// stays away costs little.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(5);

/// The response header of servers that classify requests.
const FLOW_SCHEMA: &str = "x-kubernetes-pf-flowschema-uid";

pub struct Availability {
    /// For example `v1alpha1.wardle.example.com`.
    name: String,
    group_version: GroupVersion,
    upstream: Arc<ArcSwap<Upstream>>,
    metrics: AvailabilityMetrics,
    condition: watch::Sender<Arc<Condition>>,
    wake: Notify,
    /// Whether the last success named the request's FlowSchema.
    classifies: AtomicBool,
}

impl Availability {
    pub fn new(
        name: String,
        group_version: GroupVersion,
        upstream: Arc<ArcSwap<Upstream>>,
        metrics: AvailabilityMetrics,
    ) -> Self {
        metrics.enter(&name);
        let unchecked = Condition::unchecked(Utc::now());
        Self {
            name,
            group_version,
            upstream,
            metrics,
            condition: watch::Sender::new(Arc::new(unchecked)),
            wake: Notify::new(),
            classifies: AtomicBool::new(false),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_available(&self) -> bool {
        self.condition.borrow().is_true()
    }

    /// Tells whether the server classifies requests. Extension API servers do so by
    /// their cluster's FlowSchemas.
    pub fn classifies(&self) -> bool {
        self.classifies.load(Ordering::Relaxed)
    }

    pub fn condition(&self) -> Arc<Condition> {
        self.condition.borrow().clone()
    }

    /// Returns a receiver that wakes whenever the status, reason or message changes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Condition>> {
        self.condition.subscribe()
    }

    /// Makes [`Availability::run`] check at once.
    pub fn notify(&self) {
        self.wake.notify_one();
    }

    /// Checks for ever, until the future is dropped.
    pub async fn run(self: Arc<Self>) {
        let mut failures: u32 = 0;
        loop {
            self.check().await;
            failures = if self.is_available() {
                0
            } else {
                failures.saturating_add(1)
            };
            // [`Availability::notify`] ends the pause early.
            let _ = tokio::time::timeout(pause(failures), self.wake.notified()).await;
        }
    }

    pub async fn check(&self) {
        let result = self.probe().await;
        self.conclude(result, Utc::now());
    }

    fn conclude(&self, result: Result<(), String>, now: DateTime<Utc>) {
        let mut was_available = false;
        let mut status_changed = false;
        self.condition.send_if_modified(|condition| {
            let next = Condition::checked(result, now).after(condition);
            let changed = next != **condition;
            was_available = condition.is_true();
            status_changed = next.status != condition.status;
            if changed {
                *condition = Arc::new(next);
            }
            changed
        });
        let condition = self.condition();
        self.metrics.set(&self.name, condition.is_true());
        if was_available && !condition.is_true() {
            self.metrics.lost(&self.name, condition.reason.as_str());
        }
        if status_changed {
            self.log(&condition);
        }
    }

    fn log(&self, condition: &Condition) {
        let (name, message) = (&self.name, &condition.message);
        match condition.reason {
            Reason::FailedDiscoveryCheck => {
                tracing::warn!(api_service = name, message, "APIService is not available");
            }
            _ => tracing::info!(api_service = name, message, "APIService is available"),
        }
    }

    /// Returns the first success, or the last error.
    async fn probe(&self) -> Result<(), String> {
        let answered = self.attempts().await?;
        self.classifies
            .store(answered.classified, Ordering::Relaxed);
        Ok(())
    }

    async fn attempts(&self) -> Result<Answered, String> {
        let upstream = self.upstream.load_full();
        let mut attempts: FuturesUnordered<_> = (0..CONCURRENT_ATTEMPTS)
            .map(|_| attempt(&upstream, self.group_version.path()))
            .collect();
        let mut last = Err("no answer".to_owned());
        while let Some(result) = attempts.next().await {
            last = result;
            if last.is_ok() {
                break;
            }
        }
        last
    }
}

impl Drop for Availability {
    fn drop(&mut self) {
        self.metrics.leave(&self.name);
    }
}

fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => RECHECK_INTERVAL,
        Some(before) => FIRST_RETRY_DELAY
            .saturating_mul(2_u32.saturating_pow(before))
            .min(RECHECK_INTERVAL),
    }
}

struct Answered {
    /// Whether the answer names the request's FlowSchema.
    classified: bool,
}

/// Sends one GET. Redirects are not followed, so a 3xx is a failure too.
async fn attempt(upstream: &Upstream, path: String) -> Result<Answered, String> {
    let Some(endpoint) = upstream.pick(&[]) else {
        return Err("no server is configured".to_owned());
    };
    let url = format!("https://{}{path}", endpoint.name);
    let asked = upstream.get_from(&endpoint, UpstreamKind::Discovery, &path);
    let why = match tokio::time::timeout(ATTEMPT_TIMEOUT, asked).await {
        Ok(Ok(response)) if response.status().is_success() => {
            let classified = response.headers().contains_key(FLOW_SCHEMA);
            return Ok(Answered { classified });
        }
        Ok(Ok(response)) => format!("bad status from {url}: {}", response.status().as_u16()),
        Ok(Err(error)) => format!("Get \"{url}\": {error}"),
        // The text is that of Go's client.
        Err(_) => format!(
            "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        ),
    };
    Err(format!("failing or missing response from {url}: {why}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use apifront_upstream::{Credentials, Server, Settings};

    use super::*;
    use crate::aggregation::condition::ConditionStatus;
    use crate::metrics::Metrics;

    /// Starts a server that answers the n-th request with the n-th status, and all
    /// further requests with the last status.
    async fn backend(statuses: &'static [u16]) -> (Availability, Metrics) {
        use hyper::service::service_fn;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let asked = asked.clone();
                let service = service_fn(move |request: http::Request<_>| {
                    let _: &hyper::body::Incoming = request.body();
                    assert_eq!(request.uri().path(), "/apis/g.example/v1");
                    let n = asked.fetch_add(1, Ordering::Relaxed);
                    let status = *statuses.get(n).unwrap_or(statuses.last().unwrap());
                    async move {
                        http::Response::builder()
                            .status(status)
                            .header("location", "/elsewhere")
                            .body(String::new())
                    }
                });
                let io = hyper_util::rt::TokioIo::new(tcp);
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(io, service),
                );
            }
        });
        let url = format!("http://{address}").parse().unwrap();
        let settings = Settings {
            servers: vec![Server::from_files(url, None, None, None, &Credentials::Own).unwrap()],
            ..Settings::default()
        };
        let metrics = Metrics::new().unwrap();
        let upstream = Upstream::new(&settings, metrics.upstream.clone()).unwrap();
        let availability = Availability::new(
            "v1.g.example".to_owned(),
            GroupVersion::parse("g.example/v1").unwrap(),
            Arc::new(ArcSwap::from_pointee(upstream)),
            AvailabilityMetrics::register(&metrics.registry).unwrap(),
        );
        (availability, metrics)
    }

    #[tokio::test]
    async fn one_success_of_five_is_enough() {
        let (availability, _) = backend(&[404, 500, 302, 401, 200]).await;
        assert!(!availability.is_available());
        availability.check().await;
        assert!(availability.is_available());
        assert_eq!(availability.condition().message, "all checks passed");
    }

    #[tokio::test]
    async fn any_other_status_fails() {
        for status in [&[302], &[401], &[404], &[503]] {
            let (availability, _) = backend(status).await;
            availability.check().await;
            let condition = availability.condition();
            assert_eq!(condition.status, ConditionStatus::False);
            assert_eq!(condition.reason.as_str(), "FailedDiscoveryCheck");
            let (first, second) = condition.message.split_once(": bad status from ").unwrap();
            let url = first
                .strip_prefix("failing or missing response from ")
                .unwrap();
            assert_eq!(second, format!("{url}: {}", status[0]));
            assert!(url.ends_with("/apis/g.example/v1"), "{url}");
        }
    }

    #[tokio::test]
    async fn what_becomes_unavailable_is_counted() {
        let (availability, metrics) = backend(&[200, 200, 200, 200, 200, 500]).await;
        let text = || String::from_utf8(metrics.encode().unwrap().to_vec()).unwrap();
        let gauge = |n| format!("aggregator_unavailable_apiservice{{name=\"v1.g.example\"}} {n}\n");
        let lost = "aggregator_unavailable_apiservice_total{name=\"v1.g.example\",reason=\"FailedDiscoveryCheck\"} 1\n";
        availability.conclude(Err("at first".to_owned()), Utc::now());
        assert!(text().contains(&gauge(1)) && !text().contains(lost));
        availability.conclude(Ok(()), Utc::now());
        assert!(text().contains(&gauge(0)));
        let mut changes = availability.subscribe();
        for _ in 0..2 {
            availability.conclude(Err("gone".to_owned()), Utc::now());
        }
        assert!(text().contains(&gauge(1)) && text().contains(lost));
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        availability.conclude(Err("gone".to_owned()), Utc::now());
        assert!(!changes.has_changed().unwrap());
        drop(availability);
        assert!(!text().contains(&gauge(1)));
    }

    #[test]
    fn retries_slow_down() {
        let seconds: Vec<_> = [0, 1, 2, 10, 14, 500].map(|n| pause(n).as_millis()).into();
        assert_eq!(seconds, [30_000, 5, 10, 2_560, 30_000, 30_000]);
    }
}
