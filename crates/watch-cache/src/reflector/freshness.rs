//! How new a store is known to be: the main watch, the questions for upstream's
//! version, and the promises that were made on their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kubernetes_wire::api::GroupVersionResource;
use parking_lot::Mutex;

use super::version_question::{SharedQuestion, VersionQuestion};
use super::watch_lag::{LateEvent, WatchLag};

/// Tells how recent a store is, and asks upstream for its version.
#[derive(Default)]
pub struct Freshness {
    /// Asks upstream for its version, by a list of this resource.
    own_question: VersionQuestion,
    /// Asks for reads that another resource's version can answer.
    fresh_question: VersionQuestion,
    /// The question that all resources of the same server share.
    shared_question: Option<Arc<SharedQuestion>>,
    /// Another resource's version was found to say nothing about this one.
    asks_alone: AtomicBool,
    watch_lag: Mutex<WatchLag>,
    stream: Mutex<Stream>,
    /// The last moment at which the store was known to equal upstream.
    proven: Mutex<Option<Instant>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The number of watches before this one.
    number: u64,
    open: bool,
    /// The time at which the watch last brought an event or a bookmark.
    heard: Option<Instant>,
}

impl Freshness {
    pub(super) fn share(&mut self, question: Option<Arc<SharedQuestion>>) {
        self.shared_question = question;
    }

    /// Asks for upstream's version of the resource itself. Callers that wait
    /// together share the answer.
    pub(super) async fn ask_alone<F>(&self, ask: impl FnOnce() -> F) -> Option<u64>
    where
        F: Future<Output = Option<u64>>,
    {
        let ask = async || self.noted(ask().await);
        self.own_question.ask(ask).await.version
    }

    /// Asks for upstream's version: `others` asks about other resources first, and
    /// `alone` about this one if there is no answer.
    pub(super) async fn ask_others<F, G>(
        &self,
        others: impl FnOnce() -> F,
        alone: impl FnOnce() -> G,
    ) -> Option<u64>
    where
        F: Future<Output = Option<u64>>,
        G: Future<Output = Option<u64>>,
    {
        let ask = async || match others().await {
            Some(version) => self.noted(Some(version)),
            None => alone().await,
        };
        self.fresh_question.ask(ask).await.version
    }

    /// Passes upstream's version on to the measurement of late events.
    fn noted(&self, version: Option<u64>) -> Option<u64> {
        if let Some(version) = version {
            self.watch_lag.lock().answered(version, Instant::now());
        }
        version
    }

    /// Returns the question that other resources of the server can answer. `None`
    /// if their version says nothing about this one.
    pub(super) fn shared_question(&self) -> Option<&SharedQuestion> {
        match self.asks_alone.load(Ordering::Relaxed) {
            true => None,
            false => self.shared_question.as_deref(),
        }
    }

    /// Notes that other resources' versions say nothing about this one.
    pub(super) fn must_ask_alone(&self) {
        self.asks_alone.store(true, Ordering::Relaxed);
    }

    /// Returns the time to wait for late events after upstream's version is
    /// known.
    pub fn settle(&self, now: Instant) -> Duration {
        self.watch_lag.lock().settle(now)
    }

    /// Notes that a caller was told that all events up to this version have
    /// come.
    pub fn promise(&self, version: u64) {
        self.watch_lag.lock().promise(version);
    }

    /// Tells whether promises (see [`promise`](Self::promise)) were broken, and are
    /// not given for a while.
    pub fn is_suspended(&self, now: Instant) -> bool {
        self.watch_lag.lock().is_suspended(now)
    }

    /// Returns the late events since the last call of this function, for
    /// metrics.
    pub fn take_late(&self) -> Vec<LateEvent> {
        self.watch_lag.lock().take()
    }

    /// Returns the last moment at which the store was known to equal upstream:
    /// a list began, the main watch brought an event or a bookmark, or a probe
    /// was sent whose version the store has reached. `None` if the store does
    /// not come from the current upstream.
    pub fn proven_at(&self) -> Option<Instant> {
        *self.proven.lock()
    }

    pub(crate) fn proven(&self, at: Instant) {
        let mut proven = self.proven.lock();
        *proven = proven.max(Some(at));
    }

    /// Forgets the last proof, because upstream was replaced and may be another
    /// cluster.
    pub(super) fn unproven(&self) {
        *self.proven.lock() = None;
    }

    /// Tells whether the store was proven at most `age` ago, by a version that
    /// upstream told or by a frame of the main watch.
    pub(crate) fn proven_within(&self, age: Duration, now: Instant) -> bool {
        let Stream { open, heard, .. } = *self.stream.lock();
        if open && heard.is_some_and(|at| now.saturating_duration_since(at) <= age) {
            return true;
        }
        let questions = [&self.own_question, &self.fresh_question];
        let mut answered = questions.into_iter().filter_map(VersionQuestion::answered);
        answered.any(|asked| now.saturating_duration_since(asked) <= age)
    }

    /// Notes that the main watch of `gvr` has brought everything up to this
    /// version, with an event or a bookmark.
    pub(super) fn heard(
        &self,
        gvr: &GroupVersionResource,
        version: u64,
        is_event: bool,
        now: Instant,
    ) {
        self.proven(now);
        self.stream.lock().heard = Some(now);
        let mut watch_lag = self.watch_lag.lock();
        if !is_event {
            watch_lag.reached(version);
        } else if let Some(late) = watch_lag.event(version, now)
            && late.broken
        {
            // Answers about this resource itself are a stronger proof.
            self.must_ask_alone();
            tracing::warn!(
                resource = %gvr, version, by = ?late.by,
                "an event came later than promised"
            );
        }
    }

    /// Returns the number of the main watch, if it is open.
    pub fn stream(&self) -> Option<u64> {
        let stream = self.stream.lock();
        stream.open.then_some(stream.number)
    }

    /// Notes that the main watch has begun.
    pub(super) fn begun(&self) {
        self.stream.lock().open = true;
    }

    /// Notes that the main watch has ended.
    pub(super) fn interrupted(&self) {
        let mut stream = self.stream.lock();
        stream.open = false;
        stream.number = stream.number.wrapping_add(1);
    }
}
