//! A document of another server, kept as recent as somebody needs it.
//!
//! ```text
//!          asked                        not asked for IDLE_AFTER
//! idle ───────────▶ active: a check every ACTIVE ───────────────▶ idle:
//! every IDLE        (every RETRY after a failed one)              every IDLE
//! ```
//!
//! Whoever asks gets what a check found that began less than [`FRESH`] ago, or
//! waits for the next, but not longer than `wait`: then, and as long as checks
//! fail or do not end, the last known document is the answer.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::fetch::FetchError;

/// Between the beginnings of checks while the document is in use: new
/// CustomResourceDefinitions are to be seen within about a second.
const ACTIVE: Duration = Duration::from_secs(1);
/// As kube-aggregator asks its backends.
const IDLE: Duration = Duration::from_secs(60);
/// Clients like kubectl ask a few times in a row, and then not at all.
const IDLE_AFTER: Duration = Duration::from_secs(30);
/// An answer may be this old: a check and the pause before it.
const FRESH: Duration = Duration::from_millis(1500);
/// The least time between checks that somebody waits for.
const GAP: Duration = Duration::from_millis(100);
/// The same after a failed check: a broken server is not asked more often
/// however many clients ask.
const RETRY: Duration = Duration::from_secs(1);
/// What a check found.
#[derive(Debug)]
pub enum Found<T> {
    Unchanged,
    Changed(T),
    /// The server has no such document.
    Nothing,
}

#[derive(Debug)]
pub struct Watched<T> {
    value: ArcSwapOption<T>,
    asked: Mutex<Option<Instant>>,
    wake: Notify,
    last: watch::Sender<Check>,
    /// How long a request waits for a check.
    wait: Duration,
    /// Somebody waited that long in vain: nobody does until a check succeeds.
    late: AtomicBool,
}

/// The last check that has ended.
#[derive(Clone, Copy, Debug, Default)]
struct Check {
    begun: Option<Instant>,
    failed: bool,
}

impl<T> Watched<T> {
    /// `known` is what an earlier one of the same document knew.
    pub fn new(known: Option<Arc<T>>, wait: Duration) -> Self {
        Self {
            value: ArcSwapOption::new(known),
            asked: Mutex::new(None),
            wake: Notify::new(),
            last: watch::Sender::new(Check::default()),
            wait,
            late: AtomicBool::new(false),
        }
    }

    /// What is known, however old.
    pub fn known(&self) -> Option<Arc<T>> {
        self.value.load_full()
    }

    /// What a recent check found.
    pub async fn recent(&self) -> Option<Arc<T>> {
        let now = Instant::now();
        let since = now.checked_sub(FRESH).unwrap_or(now);
        self.wait_for_check(now, since).await;
        self.known()
    }

    /// What a check found that began after this call.
    pub async fn newest(&self) -> Option<Arc<T>> {
        let now = Instant::now();
        self.wait_for_check(now, now).await;
        self.known()
    }

    async fn wait_for_check(&self, now: Instant, since: Instant) {
        *self.asked.lock() = Some(now);
        let enough = |check: &Check| check.begun.is_some_and(|begun| begun >= since);
        if enough(&self.last.borrow()) {
            return;
        }
        self.wake.notify_one();
        let mut last = self.last.subscribe();
        if last.borrow_and_update().failed || self.late.load(Ordering::Relaxed) {
            return;
        }
        let found = last.wait_for(|check| check.failed || enough(check));
        if tokio::time::timeout(self.wait, found).await.is_err() {
            self.late.store(true, Ordering::Relaxed);
        }
    }

    /// Returns when somebody asks for the first time.
    pub async fn wanted(&self) {
        while self.asked.lock().is_none() {
            self.wake.notified().await;
        }
        self.wake.notify_one();
    }

    /// Checks for ever. `observe` hears how each check ended.
    pub async fn keep<C, F>(&self, check: C, observe: impl Fn(&Result<Found<()>, FetchError>))
    where
        C: Fn(Option<Arc<T>>) -> F,
        F: Future<Output = Result<Found<T>, FetchError>>,
    {
        loop {
            let begun = Instant::now();
            let found = match check(self.known()).await {
                Ok(Found::Unchanged) => Ok(Found::Unchanged),
                Ok(Found::Changed(value)) => {
                    self.value.store(Some(Arc::new(value)));
                    Ok(Found::Changed(()))
                }
                Ok(Found::Nothing) => {
                    self.value.store(None);
                    Ok(Found::Nothing)
                }
                Err(error) => Err(error),
            };
            observe(&found);
            let failed = found.is_err();
            if !failed {
                self.late.store(false, Ordering::Relaxed);
            }
            self.last.send_replace(Check {
                begun: Some(begun),
                failed,
            });
            self.pause(begun, if failed { RETRY } else { GAP }).await;
        }
    }

    /// Until the next check is due, or wanted.
    async fn pause(&self, begun: Instant, least: Duration) {
        let in_use = self
            .asked
            .lock()
            .is_some_and(|at| at.elapsed() < IDLE_AFTER);
        let period = if in_use { ACTIVE } else { IDLE };
        let left = |of: Duration| of.saturating_sub(begun.elapsed());
        tokio::select! {
            () = tokio::time::sleep(left(period)) => {}
            () = self.wake.notified() => {}
        }
        tokio::time::sleep(left(least)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    /// A server whose document is the number of the check; from `fails` on it
    /// fails, from `hangs` on it does not answer.
    struct Server {
        checks: AtomicUsize,
        fails: usize,
        hangs: usize,
    }

    impl Server {
        async fn check(&self) -> Result<Found<usize>, FetchError> {
            let check = self.checks.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
            if check >= self.hangs {
                std::future::pending::<()>().await;
            }
            if check >= self.fails {
                return Err(FetchError::Timeout);
            }
            Ok(Found::Changed(check))
        }
    }

    async fn with(fails: usize, hangs: usize, test: impl AsyncFn(&Watched<usize>, &Server)) {
        let server = Server {
            checks: AtomicUsize::new(0),
            fails,
            hangs,
        };
        let watched = Watched::new(None, WAIT);
        tokio::select! {
            () = watched.keep(|_| server.check(), |_| {}) => {}
            () = test(&watched, &server) => {}
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[tokio::test(start_paused = true)]
    async fn checks_follow_use() {
        with(usize::MAX, usize::MAX, async |watched, server| {
            assert_eq!(watched.recent().await.as_deref(), Some(&0));
            tokio::time::sleep(seconds(10)).await;
            let checks = server.checks.load(Ordering::Relaxed);
            assert!((9..13).contains(&checks), "{checks}");
            tokio::time::sleep(seconds(200)).await;
            let checks = server.checks.load(Ordering::Relaxed);
            assert!((25..42).contains(&checks), "{checks}");
            // After idling, a check that begins now.
            assert_eq!(watched.recent().await.as_deref(), Some(&checks));
            let before = Instant::now();
            assert_eq!(watched.recent().await.as_deref(), Some(&checks));
            assert_eq!(before.elapsed(), Duration::ZERO);
            assert_eq!(watched.newest().await.as_deref(), Some(&(checks + 1)));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_known_is_served_of_a_failing_server() {
        with(1, usize::MAX, async |watched, server| {
            assert_eq!(watched.recent().await.as_deref(), Some(&0));
            tokio::time::sleep(seconds(100)).await;
            for _ in 0..1000 {
                assert_eq!(watched.newest().await.as_deref(), Some(&0));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let checks = server.checks.load(Ordering::Relaxed);
            assert!(checks < 40, "{checks}");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_server_is_waited_for_within_bounds() {
        with(usize::MAX, 0, async |watched, _| {
            let before = Instant::now();
            assert_eq!(watched.recent().await, None);
            assert_eq!(before.elapsed(), WAIT);
            assert_eq!(watched.recent().await, None);
            assert_eq!(before.elapsed(), WAIT);
        })
        .await;
    }
}
