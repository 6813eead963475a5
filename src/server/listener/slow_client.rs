//! Gives up clients that read or send too slowly.
//!
//! kube-apiserver ends a request that is neither a watch nor a stream after
//! `--request-timeout`, 60 s, whatever it waits for (k8s.io/apiserver
//! `server/filters/timeout.go`). Here a client has the same time, and in addition
//! the time that the bytes it has moved take at a minimum rate. A list of 100 MB
//! over a slow line may take minutes, but a client that reads one byte a minute is
//! given up like one that reads nothing.
//!
//! `send.rs` writes apifront's own answers within these bounds. Forwarded
//! requests are bounded from outside. pingora's own timeouts are for one write or
//! read at a time, and in HTTP/2 for one frame, so a client that takes or gives a
//! byte now and then would never exceed them. [`SlowClientGuard`] drops the request
//! of a slow client, which resets its stream or closes its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::H2Options;
use pingora_core::server::ShutdownWatch;
use tokio::time::{Instant, sleep};

use crate::metrics::FlowMetrics;

/// The time after which a client that takes no byte is given up.
pub(in crate::server) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// The value of kube-apiserver's `--request-timeout`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The minimum rate beyond that time, in bytes a second. It is 2 Mbit/s, which is
/// less than users of a cluster have. A list of 100 MB, the largest usual one, then
/// holds its place for no more than seven minutes.
const LEAST_RATE: u64 = 256 << 10;

/// The additional time for a request's body. kube-apiserver answers a request whose
/// body is late. Its answer must come before this timeout.
const AFTER_UPSTREAM: Duration = Duration::from_secs(5);

/// The time between checks of a request that has no deadline at the moment.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The labels of `apifront_slow_clients_total`.
pub(in crate::server) const FORWARDED_ANSWER: &str = "forwarded_answer";
const REQUEST_BODY: &str = "request_body";

pub(in crate::server) fn allowed(bytes: usize) -> Duration {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    REQUEST_TIMEOUT.saturating_add(Duration::from_millis(
        bytes.saturating_mul(1000) / LEAST_RATE,
    ))
}

tokio::task_local! {
    static CLOCK: Arc<Clock>;
}

/// Starts the clock for the body of a forwarded request.
pub(in crate::server) fn body_begins() {
    let _ = CLOCK.try_with(|clock| clock.begin(Transfer::Body));
}

/// Counts a piece of the body that has come. `last` tells that no more follows.
pub(in crate::server) fn body_received(bytes: usize, last: bool) {
    let _ = CLOCK.try_with(|clock| {
        if last {
            clock.end(Transfer::Body);
        } else {
            clock.moved(Transfer::Body, bytes);
        }
    });
}

pub(in crate::server) fn answer_begins() {
    let _ = CLOCK.try_with(|clock| clock.begin(Transfer::Answer));
}

/// Counts a piece of the answer that is about to be written.
pub(in crate::server) fn answer_written(bytes: usize) {
    let _ = CLOCK.try_with(|clock| clock.moved(Transfer::Answer, bytes));
}

/// The bytes that a client has to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transfer {
    Body = 1,
    Answer = 2,
}

impl Transfer {
    fn as_str(self) -> &'static str {
        match self {
            Self::Body => REQUEST_BODY,
            Self::Answer => FORWARDED_ANSWER,
        }
    }
}

/// The clock of one request. All times are in milliseconds since the request began.
struct Clock {
    began: Instant,
    /// The time at which the client is given up, or `NEVER` while the clock is
    /// stopped.
    due: AtomicU64,
    /// The transfer that is timed, as the number of a [`Transfer`], or 0.
    what: AtomicU64,
    since: AtomicU64,
    bytes: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Clock {
    fn new(began: Instant) -> Self {
        Self {
            began,
            due: AtomicU64::new(NEVER),
            what: AtomicU64::new(0),
            since: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    // The task that writes these values also reads them, so no memory order is
    // needed.

    fn begin(&self, what: Transfer) {
        self.since
            .store(millis(self.began.elapsed()), Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.what.store(what as u64, Ordering::Relaxed);
        self.moved(what, 0);
    }

    fn end(&self, what: Transfer) {
        if self.is(what) {
            self.what.store(0, Ordering::Relaxed);
            self.due.store(NEVER, Ordering::Relaxed);
        }
    }

    fn is(&self, what: Transfer) -> bool {
        self.what.load(Ordering::Relaxed) == what as u64
    }

    fn moved(&self, what: Transfer, more: usize) {
        if !self.is(what) {
            return;
        }
        let bytes = self.bytes.load(Ordering::Relaxed);
        let bytes = bytes.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
        self.bytes.store(bytes, Ordering::Relaxed);
        let allowed = allowed(usize::try_from(bytes).unwrap_or(usize::MAX));
        let allowed = match what {
            Transfer::Body => allowed.saturating_add(AFTER_UPSTREAM),
            Transfer::Answer => allowed,
        };
        let since = self.since.load(Ordering::Relaxed);
        let due = since.saturating_add(millis(allowed));
        self.due.store(due.min(NEVER - 1), Ordering::Relaxed);
    }

    /// Resolves when the client must be given up.
    async fn late(&self) -> Transfer {
        // No client is due earlier.
        let mut pause = REQUEST_TIMEOUT;
        loop {
            sleep(pause).await;
            let due = self.due.load(Ordering::Relaxed);
            let now = self.began.elapsed();
            let left = due.saturating_sub(millis(now));
            if due == NEVER {
                pause = LOOK_EVERY;
            } else if left > 0 {
                // The due time may still change, but only to a later one.
                pause = Duration::from_millis(left).min(REQUEST_TIMEOUT);
            } else if self.is(Transfer::Body) {
                return Transfer::Body;
            } else {
                return Transfer::Answer;
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NEVER - 1)
}

pub(in crate::server) struct SlowClientGuard<A> {
    inner: Arc<A>,
    metrics: FlowMetrics,
}

impl<A> SlowClientGuard<A> {
    pub(in crate::server) fn new(inner: A, metrics: FlowMetrics) -> Self {
        Self {
            inner: Arc::new(inner),
            metrics,
        }
    }
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> HttpServerApp for SlowClientGuard<A> {
    async fn process_new_http(
        self: &Arc<Self>,
        session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        let clock = Arc::new(Clock::new(Instant::now()));
        let request = self.inner.process_new_http(session, shutdown);
        let mut request = std::pin::pin!(CLOCK.scope(clock.clone(), request));
        let late = tokio::select! {
            biased;
            reused = &mut request => return reused,
            what = clock.late() => what,
        };
        self.metrics.too_slow(late.as_str());
        tracing::info!(what = late.as_str(), "gave up a client that is too slow");
        None
    }

    fn h2_options(&self) -> Option<H2Options> {
        self.inner.h2_options()
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        self.inner.server_options()
    }

    async fn http_cleanup(&self) {
        self.inner.http_cleanup().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn large_answers_have_longer() {
        for (bytes, expected) in [
            (0, REQUEST_TIMEOUT),
            (1, REQUEST_TIMEOUT),
            (256 << 10, REQUEST_TIMEOUT + SECOND),
            (100 << 20, REQUEST_TIMEOUT + SECOND * 400),
        ] {
            assert_eq!(allowed(bytes), expected, "{bytes}");
        }
        assert!(allowed(usize::MAX) > allowed(usize::MAX >> 20));
    }

    /// Runs a client, and returns the seconds after which it is given up.
    async fn given_up(client: impl AsyncFnOnce(&Clock)) -> Option<(Transfer, u64)> {
        let clock = Clock::new(Instant::now());
        let client = async {
            client(&clock).await;
            std::future::pending::<()>().await;
        };
        let what = tokio::select! {
            what = clock.late() => what,
            () = client => return None,
            () = tokio::time::sleep(SECOND * 10_000) => return None,
        };
        Some((what, clock.began.elapsed().as_secs()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_dripping_client_is_given_up_like_a_silent_one() {
        let silent = given_up(async |clock| clock.begin(Transfer::Answer)).await;
        assert_eq!(silent, Some((Transfer::Answer, 60)));
        let dripping = given_up(async |clock| {
            clock.begin(Transfer::Answer);
            loop {
                clock.moved(Transfer::Answer, 1);
                tokio::time::sleep(SECOND).await;
            }
        });
        assert_eq!(dripping.await, Some((Transfer::Answer, 60)));
        // Upstream's own answer can come in the additional time.
        let body = given_up(async |clock| clock.begin(Transfer::Body)).await;
        assert_eq!(body, Some((Transfer::Body, 65)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_the_least_rate_is_not() {
        let steady = given_up(async |clock| {
            clock.begin(Transfer::Answer);
            for _ in 0..5_000 {
                clock.moved(Transfer::Answer, 256 << 10);
                tokio::time::sleep(SECOND).await;
            }
            clock.end(Transfer::Answer);
        });
        assert_eq!(steady.await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_upstream_is_not_on_the_clock() {
        let waits = given_up(async |clock| {
            clock.begin(Transfer::Body);
            tokio::time::sleep(SECOND * 50).await;
            clock.end(Transfer::Body);
            tokio::time::sleep(SECOND * 500).await;
            // Pieces of an answer that is not timed are not counted.
            clock.moved(Transfer::Answer, 1);
            tokio::time::sleep(SECOND * 500).await;
            clock.begin(Transfer::Answer);
        });
        let (what, after) = waits.await.unwrap();
        assert_eq!(what, Transfer::Answer);
        assert!((1110..=1115).contains(&after), "{after}");
    }
}
