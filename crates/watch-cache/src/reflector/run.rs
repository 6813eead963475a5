//! The reflector's loop.
//!
//! ```text
//!            ┌──────────── 410, or a custom resource's watch ended early ──────┐
//!            ▼                                                                 │
//! start ─▶ List ── ok ─▶ Watch ── its time is up ─▶ Watch (from the last version)
//!            │  ▲           │
//!            │  └─ backoff ─┼─ cannot connect, broke off, silent ─▶ backoff ─▶ Watch
//!            ▼              ▼
//!         Refused (404, 405, 403 for long: the entry is dropped, asked again later)
//! ```
//!
//! A process that finds a saved store of the resource starts with that instead
//! of a list (`resume.rs`). If the store cannot be used, it lists.
//!
//! A list is a stream of initial events that continues as the watch, or pages
//! (`fill.rs`). If a watch ends before its time, a pause comes before the
//! next request, and upstream counts as lost until the next watch is open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_source::{CurrentSource, Source};
use rand::Rng;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;

use super::definition::{self, DefinitionState};
use super::entry::Entry;
use super::fill::{Filled, ListStrategy};
use super::list_error::ListError;
use super::memory_pool::{MemoryExhausted, MemoryPool};
use super::resume::{self, NotResumed};
use super::unavailable::{MEMORY_RETRY_DELAY, REFUSED_RETRY_DELAY, Unavailable};
use super::upstream_watch::{UpstreamWatchEnd, follow, is_forbidden, learn_bookmark, watch};
use super::watch_list::Opened;
use crate::saved::SavedStores;
use crate::{Observer, Shed};

/// The first and the longest pause after a failure. Watchers are still served
/// meanwhile. The longest pause bounds the time until a restarted API server is
/// found again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The interval at which a waiting reflector checks whether upstream is back,
/// and the longest delay from then to its request.
const HEALTH_LOOK_INTERVAL: Duration = Duration::from_millis(100);
const MAX_RECOVERY_DELAY: Duration = Duration::from_millis(500);

/// The longest pause that upstream can ask for with `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// After a watch that lasted this long, the pauses start short again.
const STEADY_WATCH_AGE: Duration = Duration::from_secs(30);

/// The number of consecutive answers that cannot be cached after which a
/// resource is given up.
const UNUSABLE_ANSWERS: u32 = 5;

/// A resource that stays forbidden for this long is given up. Its watchers are
/// closed.
const FORBIDDEN_FOR: Duration = Duration::from_secs(30);

enum Next {
    Resume,
    List,
    /// Watches on this stream, or on a new one.
    Watch(Option<Opened>),
    Stop,
}

impl Next {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Resume | Self::List => "listing",
            Self::Watch(_) => "watching",
            Self::Stop => "stopped",
        }
    }
}

/// The parts that all reflectors of a cache share.
#[derive(Clone)]
pub(super) struct ReflectorContext {
    pub(super) upstream: Arc<dyn CurrentSource>,
    pub(super) observer: Arc<dyn Observer>,
    /// Incremented when another upstream replaces this one.
    pub(super) replaced: Receiver<u64>,
    /// Notified when a store was filled: it may exceed the memory limit.
    pub(super) grown: Arc<Notify>,
    /// Notified when a store was filled: the forms that lists need are not made
    /// yet.
    pub(super) refilled: Arc<Notify>,
    /// A list that does not fit into this memory is given up.
    pub(super) memory: Arc<MemoryPool>,
    pub(super) saved: Option<Arc<SavedStores>>,
}

/// Runs the reflector until upstream refuses for good or the entry is stopped.
/// Then closes the entry's watchers.
pub(super) async fn run(entry: Arc<Entry>, with: ReflectorContext) {
    let observer = with.observer.clone();
    let saved = with.saved.clone();
    let reflection = Reflection {
        entry: &entry,
        with,
        pause: Pause::default(),
        forbidden: Forbidden::default(),
        strategy: ListStrategy::default(),
        definition: DefinitionState::default(),
        unusable: 0,
    };
    tokio::select! {
        () = reflection.run() => {}
        () = entry.lifecycle().ended() => entry.close(),
    }
    observer.reflector_ended(&entry.gvr);
    if let Some(saved) = saved {
        saved.ended(&entry.gvr);
    }
}

struct Reflection<'a> {
    entry: &'a Entry,
    with: ReflectorContext,
    pause: Pause,
    forbidden: Forbidden,
    strategy: ListStrategy,
    definition: DefinitionState,
    /// Consecutive answers that could not be cached. A watch that lasted resets
    /// it.
    unusable: u32,
}

impl Reflection<'_> {
    async fn run(mut self) {
        let claims = |saved: &Arc<SavedStores>| saved.claim(&self.entry.gvr);
        let mut next = match self.with.saved.as_ref().is_some_and(claims) {
            true => Next::Resume,
            false => Next::List,
        };
        loop {
            let upstream = self.with.upstream.current();
            if self.entry.store().is_some() {
                let observer = &self.with.observer;
                observer.reflector_state(&self.entry.gvr, next.as_str());
            }
            next = match next {
                Next::Resume => self.resume(&*upstream).await,
                Next::List => self.list(&*upstream).await,
                Next::Watch(stream) => self.watch(stream, &*upstream).await,
                Next::Stop => return,
            };
        }
    }

    async fn resume(&mut self, upstream: &dyn Source) -> Next {
        let (entry, memory) = (self.entry, &self.with.memory);
        let Some(saved) = &self.with.saved else {
            return Next::List;
        };
        match resume::resume(entry, upstream, saved, memory).await {
            Ok(filled) => self.filled(filled),
            Err(NotResumed::Refused(why)) => {
                saved.refused(&entry.gvr, &why);
                Next::List
            }
            Err(NotResumed::Later(after)) => {
                self.pause.wait(after, upstream).await;
                Next::Resume
            }
        }
    }

    fn filled(&mut self, Filled { stream, defined }: Filled) -> Next {
        self.forbidden.clear();
        self.with.grown.notify_one();
        self.entry.usage().refilled();
        self.with.refilled.notify_one();
        self.definition = defined;
        Next::Watch(stream)
    }

    async fn list(&mut self, upstream: &dyn Source) -> Next {
        let memory = &self.with.memory;
        match self.strategy.fill(self.entry, upstream, memory).await {
            Ok(filled) => self.filled(filled),
            Err(error) => self.list_failed(error, upstream).await,
        }
    }

    async fn list_failed(&mut self, error: ListError, upstream: &dyn Source) -> Next {
        let resource = &self.entry.gvr;
        match error {
            ListError::Refused { status, message }
                if self.entry.store().is_none()
                    || !is_forbidden(status)
                    || self.forbidden.too_long(Instant::now()) =>
            {
                tracing::info!(%resource, %status, message, "not cached");
                self.refuse(Unavailable::Refused, REFUSED_RETRY_DELAY)
            }
            ListError::MemoryExhausted(MemoryExhausted::TooLarge(_)) => {
                tracing::warn!(%resource, %error, "not cached");
                self.with.observer.shed(Shed::Refused);
                self.refuse(Unavailable::MemoryLimit, MEMORY_RETRY_DELAY)
            }
            error if error.is_of_form() && self.is_hopeless() => self.unusable(error),
            error => {
                if !matches!(&error, ListError::Refused { status, .. } if is_forbidden(*status)) {
                    self.forbidden.clear();
                }
                self.entry.lifecycle().disconnected(Instant::now());
                tracing::warn!(%resource, %error, "list failed");
                self.restarted("list_failed");
                self.pause.wait(error.retry_after(), upstream).await;
                Next::List
            }
        }
    }

    async fn watch(&mut self, stream: Option<Opened>, upstream: &dyn Source) -> Next {
        let began = Instant::now();
        let entry = self.entry;
        let (definition, memory) = (&self.definition, &self.with.memory);
        let watched = async {
            match stream {
                Some(stream) => follow(entry, stream).await,
                None => watch(entry, upstream, definition, memory).await,
            }
        };
        let learning = async {
            learn_bookmark(entry, upstream).await;
            std::future::pending().await
        };
        let end = tokio::select! {
            end = watched => end,
            end = learning => end,
            Ok(()) = self.with.replaced.changed() => UpstreamWatchEnd::Replaced,
        };
        tracing::debug!(resource = %entry.gvr, ?end, "watch ended");
        if began.elapsed() > STEADY_WATCH_AGE {
            self.pause.reset();
            self.unusable = 0;
            entry.lifecycle().found_usable();
        }
        if end != UpstreamWatchEnd::TimeUp {
            entry.lifecycle().disconnected(Instant::now());
        }
        if end != UpstreamWatchEnd::Forbidden {
            self.forbidden.clear();
        }
        self.watch_ended(end, upstream).await
    }

    async fn watch_ended(&mut self, end: UpstreamWatchEnd, upstream: &dyn Source) -> Next {
        let form = self.entry.store().map(|s| s.resource.envelope.form);
        let redefined =
            end == UpstreamWatchEnd::Early && form.is_some_and(definition::ends_watches);
        let (reason, retry_after, next) = match end {
            UpstreamWatchEnd::TimeUp => {
                self.pause.reset();
                return Next::Watch(None);
            }
            UpstreamWatchEnd::Replaced => {
                // Frames that came before this may have proven the store again.
                self.entry.freshness().unproven();
                self.restarted("upstream_replaced");
                self.strategy.forget();
                return Next::List;
            }
            UpstreamWatchEnd::Forbidden if !self.forbidden.too_long(Instant::now()) => {
                ("watch_failed", None, Next::Watch(None))
            }
            UpstreamWatchEnd::Unusable if self.is_hopeless() => {
                return self.unusable("its events cannot be read");
            }
            UpstreamWatchEnd::NotWatchable => return self.unusable("it cannot be watched"),
            UpstreamWatchEnd::Refused | UpstreamWatchEnd::Forbidden => {
                tracing::info!(resource = %self.entry.gvr, "no longer cached");
                return self.refuse(Unavailable::Refused, REFUSED_RETRY_DELAY);
            }
            // API servers are upgraded one after the other. The pause is also
            // needed while old and new ones answer in turn.
            UpstreamWatchEnd::OtherRelease => {
                self.strategy.forget();
                ("upstream_replaced", None, Next::List)
            }
            UpstreamWatchEnd::Expired => ("expired", None, Next::List),
            UpstreamWatchEnd::Unusable => ("unusable_event", None, Next::List),
            UpstreamWatchEnd::Early if redefined => ("ended_early", None, Next::List),
            UpstreamWatchEnd::Early => ("watch_failed", None, Next::Watch(None)),
            UpstreamWatchEnd::Failed(after) => ("watch_failed", after, Next::Watch(None)),
        };
        self.restarted(reason);
        self.pause.wait(retry_after, upstream).await;
        next
    }

    /// Counts a new list or watch. Only a resource that was listed, and so
    /// exists, is counted.
    fn restarted(&self, reason: &'static str) {
        if self.entry.store().is_some() {
            let observer = &self.with.observer;
            observer.reflector_restarted(&self.entry.gvr, reason);
        }
    }

    /// Counts an answer that cannot be cached. Tells whether the next answer is
    /// unlikely to be better.
    fn is_hopeless(&mut self) -> bool {
        self.unusable = self.unusable.saturating_add(1);
        self.entry.lifecycle().is_unusable() || self.unusable >= UNUSABLE_ANSWERS
    }

    fn unusable(&self, why: impl std::fmt::Display) -> Next {
        let resource = &self.entry.gvr;
        if self.entry.lifecycle().is_unusable() {
            tracing::debug!(%resource, %why, "still not cached");
        } else {
            tracing::warn!(%resource, %why, "not cached");
        }
        let lasts = self.entry.lifecycle().found_unusable();
        self.refuse(Unavailable::Refused, lasts)
    }

    fn refuse(&self, why: Unavailable, lasts: Duration) -> Next {
        self.entry.refuse(why, Instant::now(), lasts);
        Next::Stop
    }
}

/// The time since which upstream has answered only 401 and 403.
#[derive(Default)]
struct Forbidden(Option<Instant>);

impl Forbidden {
    fn too_long(&mut self, now: Instant) -> bool {
        let since = *self.0.get_or_insert(now);
        now.saturating_duration_since(since) > FORBIDDEN_FOR
    }

    fn clear(&mut self) {
        self.0 = None;
    }
}

/// The pauses after failures. They grow up to a bound, and are random so that
/// the reflectors do not all ask at once.
#[derive(Default)]
struct Pause {
    failures: u32,
}

impl Pause {
    /// Waits for one pause. It ends early when a lost server is back, unless
    /// upstream said when to ask again.
    async fn wait(&mut self, retry_after: Option<Duration>, upstream: &dyn Source) {
        let jitter = rand::rng().random_range(0.5..1.0);
        let pause = tokio::time::sleep(self.next(retry_after, jitter));
        let recovered = async {
            while upstream.is_ready() {
                tokio::time::sleep(HEALTH_LOOK_INTERVAL).await;
            }
            while !upstream.is_ready() {
                tokio::time::sleep(HEALTH_LOOK_INTERVAL).await;
            }
            tokio::time::sleep(MAX_RECOVERY_DELAY.mul_f64(jitter)).await;
        };
        tokio::select! {
            () = pause => {}
            () = recovered, if retry_after.is_none() => self.reset(),
        }
    }

    /// Returns the next pause. If upstream asked for a pause, the reflector's
    /// own pause is added to that.
    fn next(&mut self, retry_after: Option<Duration>, jitter: f64) -> Duration {
        let (first, longest) = BACKOFF;
        let doubled = first.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        let own = doubled.min(longest).mul_f64(jitter);
        match retry_after {
            Some(asked) => asked.min(MAX_RETRY_AFTER).saturating_add(own),
            None => own,
        }
    }

    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_counts_from_the_first_time() {
        let mut forbidden = Forbidden::default();
        let now = Instant::now();
        assert!(!forbidden.too_long(now));
        assert!(!forbidden.too_long(now + FORBIDDEN_FOR));
        assert!(forbidden.too_long(now + FORBIDDEN_FOR * 2));
        forbidden.clear();
        assert!(!forbidden.too_long(now + FORBIDDEN_FOR * 3));
    }

    #[test]
    fn pauses_grow_and_heed_retry_after() {
        let mut pause = Pause::default();
        let millis = |d: Duration| d.as_millis();
        let own: Vec<_> = (0..8).map(|_| millis(pause.next(None, 1.0))).collect();
        assert_eq!(own, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        pause.reset();
        let asked = |s| Some(Duration::from_secs(s));
        assert_eq!(millis(pause.next(asked(3), 0.5)), 3050);
        assert_eq!(millis(pause.next(asked(3600), 0.5)), 60_100);
        assert_eq!(millis(pause.next(None, 0.5)), 200);
    }
}
