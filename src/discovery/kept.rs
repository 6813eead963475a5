//! A document of the API server, kept and asked for again.
//!
//! Who wants it says how old it may be. Is it older, all who want it wait for
//! one question that began late enough; if that takes long or fails, they get
//! the last document there was, and while it goes on failing nobody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apifront_upstream::Upstream;
use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::fetch::{self, Fetched, MAX_UPSTREAM_BYTES};
use super::metrics::{DiscoveryMetrics, Refresh};

/// How old an answer may be: what upstream shows is shown here within a second,
/// with a slow question too.
pub(super) const MAX_AGE: Duration = Duration::from_millis(750);

/// How long a question is waited for before the last document is given. An API
/// server answers in milliseconds.
const WAIT: Duration = Duration::from_secs(2);

/// Time between questions that fail.
const RETRY: Duration = Duration::from_millis(500);

/// The name of the API server in metrics.
pub(super) const UPSTREAM: &str = "upstream";

/// Numbers every different document there ever was, so that what is made of
/// some of them is known by their numbers.
static NUMBER: AtomicU64 = AtomicU64::new(1);

#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) body: Bytes,
    pub(super) etag: Option<String>,
    pub(super) number: u64,
}

/// What a document must be to be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) accept: &'static str,
    /// Its Content-Type, without spaces.
    pub(super) content_type: &'static str,
    /// Whether the API server writes it itself. Then an answer of 5xx means
    /// that it is in trouble, and the last document stays. Otherwise 5xx is the
    /// answer, and what comes from a server behind it is not kept: that server
    /// negotiates in its own way.
    pub(super) own: bool,
}

pub(super) struct Kept {
    path: String,
    wanted: Wanted,
    state: Mutex<State>,
    /// Moves at the end of each question.
    done: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    document: Option<Document>,
    /// When the question began that last confirmed `document`, or its absence.
    current: Option<Instant>,
    /// When the last question began.
    asked: Option<Instant>,
    in_flight: bool,
    failing: bool,
    /// Raised when the upstream was replaced: answers of the old one are void.
    epoch: u64,
}

/// What there is to give to somebody who wants a document.
enum Ready {
    Now(Option<Document>),
    /// At the end of the question in flight, or of the one that was begun.
    Later,
}

/// Whom is asked.
pub(super) struct Server {
    /// In metrics.
    pub(super) name: String,
    pub(super) upstream: Arc<ArcSwap<Upstream>>,
    pub(super) metrics: DiscoveryMetrics,
}

impl Kept {
    pub(super) fn new(path: &str, wanted: Wanted) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            wanted,
            state: Mutex::default(),
            done: watch::channel(0).0,
        })
    }

    /// The last document, whatever its age.
    pub(super) fn last(&self) -> Option<Document> {
        self.state.lock().document.clone()
    }

    /// When it was last known to be current.
    pub(super) fn current(&self) -> Option<Instant> {
        self.state.lock().current
    }

    /// A document no older than `max_age`, if that can be had soon, or else the
    /// last one. `None`: there is none.
    pub(super) async fn get(
        self: &Arc<Self>,
        server: &Arc<Server>,
        max_age: Duration,
    ) -> Option<Document> {
        let now = Instant::now();
        let mut done = self.done.subscribe();
        loop {
            match self.ready(server, now, max_age) {
                Ready::Now(document) => return document,
                Ready::Later => {}
            }
            let left = WAIT.saturating_sub(now.elapsed());
            let ended = tokio::time::timeout(left, done.changed()).await;
            if ended.is_err() {
                return self.last();
            }
        }
    }

    fn ready(self: &Arc<Self>, server: &Arc<Server>, now: Instant, max_age: Duration) -> Ready {
        let mut state = self.state.lock();
        let age = |then| now.saturating_duration_since(then);
        let late_enough = |then: Option<Instant>| then.is_some_and(|t| age(t) <= max_age);
        if late_enough(state.current) {
            return Ready::Now(state.document.clone());
        }
        // Asked in time, without success; or without success for some time.
        let asked_in_time = late_enough(state.asked) && !state.in_flight;
        let hangs = state.in_flight && state.asked.is_some_and(|t| age(t) >= WAIT);
        if state.failing && asked_in_time {
            return Ready::Now(state.document.clone());
        }
        if !state.in_flight {
            self.begin(&mut state, server);
        }
        if (state.failing || hangs) && state.document.is_some() {
            return Ready::Now(state.document.clone());
        }
        Ready::Later
    }

    /// Asks again, unless that is being done, or failed just now.
    pub(super) fn refresh(self: &Arc<Self>, server: &Arc<Server>) {
        let mut state = self.state.lock();
        let just_failed = state.failing && state.asked.is_some_and(|t| t.elapsed() < RETRY);
        if !state.in_flight && !just_failed {
            self.begin(&mut state, server);
        }
    }

    /// What is known is of another API server.
    pub(super) fn forget(&self) {
        let mut state = self.state.lock();
        *state = State {
            epoch: state.epoch.wrapping_add(1),
            ..State::default()
        };
    }

    /// The question is a task of its own: it ends in any case, whoever waits.
    fn begin(self: &Arc<Self>, state: &mut State, server: &Arc<Server>) {
        let began = Instant::now();
        state.asked = Some(began);
        state.in_flight = true;
        let epoch = state.epoch;
        let etag = state.document.as_ref().and_then(|d| d.etag.clone());
        let (kept, server) = (self.clone(), server.clone());
        tokio::spawn(async move {
            let upstream = server.upstream.load_full();
            let accept = kept.wanted.accept;
            let limit = MAX_UPSTREAM_BYTES;
            let fetched = fetch::fetch(&upstream, &kept.path, accept, etag.as_deref(), limit).await;
            let result = kept.end(fetched, epoch, began);
            server.metrics.refreshed(&server.name, result);
        });
    }

    fn end(
        &self,
        fetched: Result<Fetched, fetch::FetchError>,
        epoch: u64,
        began: Instant,
    ) -> Refresh {
        let mut state = self.state.lock();
        if state.epoch != epoch {
            return Refresh::Failed;
        }
        let result = self.take(&mut state, fetched);
        state.in_flight = false;
        state.failing = result == Refresh::Failed;
        if result != Refresh::Failed {
            state.current = Some(began);
        }
        drop(state);
        self.done.send_modify(|n| *n = n.wrapping_add(1));
        result
    }

    fn take(&self, state: &mut State, fetched: Result<Fetched, fetch::FetchError>) -> Refresh {
        let fetched = match fetched {
            Ok(Fetched::NotModified) => return Refresh::Unchanged,
            Ok(Fetched::Document(document))
                if document.content_type.replace(' ', "") == self.wanted.content_type
                    && (self.wanted.own || !document.aggregated) =>
            {
                Some(document)
            }
            Ok(Fetched::Refused(code))
                if self.wanted.own && (code.is_server_error() || code == 429) =>
            {
                tracing::debug!(path = self.path, %code, "discovery refused");
                return Refresh::Failed;
            }
            // It has no such document.
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(path = self.path, %error, "discovery failed");
                return Refresh::Failed;
            }
        };
        match (fetched, &state.document) {
            (None, None) => Refresh::Unchanged,
            (Some(new), Some(old)) if new.body == old.body && new.etag == old.etag => {
                Refresh::Unchanged
            }
            (fetched, _) => {
                state.document = fetched.map(|new| Document {
                    body: new.body,
                    etag: new.etag,
                    number: NUMBER.fetch_add(1, Ordering::Relaxed),
                });
                Refresh::Changed
            }
        }
    }
}
