//! A document of another server, which is kept as recent as its callers need it.
//!
//! A caller says how old the document may be. If it is older, all callers wait for
//! one request that began late enough. If that request takes long or fails, they get
//! the last document. While requests keep failing, no caller waits.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::interest::Interest;

/// The limits on how long callers wait and how often servers are asked.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time for which a caller waits for a request.
    pub wait: Duration,
    /// The least time between the beginnings of two requests.
    pub gap: Duration,
    /// The least time after a failed request: a broken server is not asked more
    /// often, however many callers there are.
    pub retry: Duration,
    /// Whether callers wait for a failing server while there is no document at all.
    pub waits_for_first: bool,
}

/// The result of a request to the document's server.
#[derive(Debug)]
pub enum Refreshed<T> {
    Changed(T),
    Unchanged,
    /// The server does not have the document.
    NotFound,
    /// The server did not say whether it has the document. The last document stays.
    Failed,
}

#[derive(Debug)]
pub struct Recent<T> {
    pace: Pace,
    state: Mutex<State<T>>,
    /// Changes at the end of each request.
    ended: watch::Sender<u64>,
}

#[derive(Debug)]
struct State<T> {
    document: Option<Arc<T>>,
    /// The beginning of the last request that confirmed the document or its absence.
    confirmed: Option<Instant>,
    /// The beginning of the last request, which may be in the future.
    asked: Option<Instant>,
    in_flight: bool,
    failing: bool,
    /// Whether, since the last successful request, a caller has waited for all of
    /// [`Pace::wait`] in vain.
    late: bool,
    /// The number of replacements of the server. Answers from an earlier server are
    /// dropped.
    epoch: u64,
}

/// The answer to a caller, if it is decided.
enum Ready<T> {
    /// The document is as recent as the caller wants it.
    Recent(Option<Arc<T>>),
    /// The document is older, but the caller should not wait for a newer one.
    Last(Option<Arc<T>>),
    /// The answer is decided at the end of a request.
    Later,
}

impl<T> State<T> {
    fn new(document: Option<Arc<T>>, epoch: u64) -> Self {
        Self {
            document,
            confirmed: None,
            asked: None,
            in_flight: false,
            failing: false,
            late: false,
            epoch,
        }
    }

    /// Returns the earliest time for the next request.
    fn next(&self, pace: &Pace) -> Option<Instant> {
        let least = if self.failing { pace.retry } else { pace.gap };
        self.asked?.checked_add(least)
    }

    /// Decides the answer to a caller who came at `now`.
    fn ready(&self, pace: &Pace, now: Instant, max_age: Duration) -> Ready<T> {
        let age = |then| now.saturating_duration_since(then);
        let late_enough = |then: Option<Instant>| then.is_some_and(|t| age(t) <= max_age);
        let asked_in_vain = self.failing && !self.in_flight && late_enough(self.asked);
        if late_enough(self.confirmed) || asked_in_vain {
            return Ready::Recent(self.document.clone());
        }
        let hangs = self.in_flight && self.asked.is_some_and(|t| age(t) >= pace.wait);
        let fails = self.failing || self.late;
        match &self.document {
            Some(last) if fails || hangs => Ready::Last(Some(last.clone())),
            None if fails && !pace.waits_for_first => Ready::Last(None),
            _ => Ready::Later,
        }
    }
}

impl<T> Recent<T> {
    /// `known` is the document of an earlier `Recent` for the same path.
    pub fn new(known: Option<Arc<T>>, pace: Pace) -> Arc<Self> {
        Arc::new(Self {
            pace,
            state: Mutex::new(State::new(known, 0)),
            ended: watch::channel(0).0,
        })
    }

    /// Returns the last document, whatever its age.
    pub fn last(&self) -> Option<Arc<T>> {
        self.state.lock().document.clone()
    }

    /// Returns the time at which the document was last known to be current.
    pub fn confirmed(&self) -> Option<Instant> {
        self.state.lock().confirmed
    }

    /// Forgets the document, because another server replaced this one.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        *state = State::new(None, state.epoch.wrapping_add(1));
    }
}

impl<T> Refreshed<T> {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Changed(_) => "changed",
            Self::Unchanged => "unchanged",
            Self::NotFound => "not_found",
            Self::Failed => "failed",
        }
    }
}

impl<T: Send + Sync + 'static> Recent<T> {
    /// Returns a document that is no older than `max_age`, if there is one soon,
    /// else the last document. `None` if there is none. `ask` makes the request; its
    /// argument is the last document.
    pub async fn get<A, F>(self: &Arc<Self>, max_age: Duration, ask: A) -> Option<Arc<T>>
    where
        A: Fn(Option<Arc<T>>) -> F,
        F: Future<Output = Refreshed<T>> + Send + 'static,
    {
        let now = Instant::now();
        let mut ended = self.ended.subscribe();
        loop {
            match self.ready(now, max_age, &ask) {
                Ready::Recent(document) | Ready::Last(document) => return document,
                Ready::Later => {}
            }
            let left = self.pace.wait.saturating_sub(now.elapsed());
            if tokio::time::timeout(left, ended.changed()).await.is_err() {
                let mut state = self.state.lock();
                state.late = true;
                return state.document.clone();
            }
        }
    }

    fn ready<A, F>(self: &Arc<Self>, now: Instant, max_age: Duration, ask: &A) -> Ready<T>
    where
        A: Fn(Option<Arc<T>>) -> F,
        F: Future<Output = Refreshed<T>> + Send + 'static,
    {
        let mut state = self.state.lock();
        let ready = state.ready(&self.pace, now, max_age);
        if !matches!(ready, Ready::Recent(_)) && !state.in_flight {
            self.begin(&mut state, ask);
        }
        ready
    }

    /// Requests the document again, unless a request is in flight or was just made.
    pub fn refresh<A, F>(self: &Arc<Self>, ask: A)
    where
        A: Fn(Option<Arc<T>>) -> F,
        F: Future<Output = Refreshed<T>> + Send + 'static,
    {
        let mut state = self.state.lock();
        let is_due = state.next(&self.pace).is_none_or(|t| t <= Instant::now());
        if !state.in_flight && is_due {
            self.begin(&mut state, &ask);
        }
    }

    /// Requests the document for ever, as often as `interest` demands.
    pub async fn keep<A, F>(self: &Arc<Self>, interest: &Interest, ask: A)
    where
        A: Fn(Option<Arc<T>>) -> F,
        F: Future<Output = Refreshed<T>> + Send + 'static,
    {
        let mut ended = self.ended.subscribe();
        loop {
            self.refresh(&ask);
            while self.state.lock().in_flight {
                if ended.changed().await.is_err() {
                    return;
                }
            }
            let asked = self.state.lock().asked;
            let elapsed = asked.map_or(Duration::ZERO, |asked| asked.elapsed());
            let left = interest.period().saturating_sub(elapsed);
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = interest.woken() => {}
            }
        }
    }

    /// Starts the request in its own task, so that it ends even if its callers are
    /// gone.
    fn begin<A, F>(self: &Arc<Self>, state: &mut State<T>, ask: &A)
    where
        A: Fn(Option<Arc<T>>) -> F,
        F: Future<Output = Refreshed<T>> + Send + 'static,
    {
        let now = Instant::now();
        let began = state.next(&self.pace).map_or(now, |next| next.max(now));
        state.asked = Some(began);
        state.in_flight = true;
        let epoch = state.epoch;
        let question = ask(state.document.clone());
        let this = self.clone();
        tokio::spawn(async move {
            if began > now {
                tokio::time::sleep_until(began).await;
            }
            let refreshed = question.await;
            this.end(refreshed, epoch, began);
        });
    }

    fn end(&self, refreshed: Refreshed<T>, epoch: u64, began: Instant) {
        let mut state = self.state.lock();
        if state.epoch != epoch {
            return;
        }
        state.in_flight = false;
        state.failing = matches!(refreshed, Refreshed::Failed);
        if !state.failing {
            state.confirmed = Some(began);
            state.late = false;
        }
        match refreshed {
            Refreshed::Changed(document) => state.document = Some(Arc::new(document)),
            Refreshed::NotFound => state.document = None,
            Refreshed::Unchanged | Refreshed::Failed => {}
        }
        drop(state);
        self.ended.send_modify(|n| *n = n.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::interest::Rhythm;
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);
    const PACE: Pace = Pace {
        wait: WAIT,
        gap: Duration::from_millis(100),
        retry: Duration::from_secs(1),
        waits_for_first: false,
    };
    const RHYTHM: Rhythm = Rhythm {
        active: Duration::from_secs(1),
        idle: Duration::from_secs(60),
        active_for: Duration::from_secs(30),
    };

    /// A server whose document is the number of the check. From check `fails` on it
    /// fails; from check `hangs` on it does not answer.
    struct Server {
        checks: AtomicUsize,
        fails: usize,
        hangs: usize,
    }

    impl Server {
        async fn check(self: Arc<Self>) -> Refreshed<usize> {
            let check = self.checks.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
            if check >= self.hangs {
                std::future::pending::<()>().await;
            }
            if check >= self.fails {
                return Refreshed::Failed;
            }
            Refreshed::Changed(check)
        }
    }

    struct Callers {
        document: Arc<Recent<usize>>,
        interest: Interest,
        server: Arc<Server>,
    }

    impl Callers {
        async fn get(&self, max_age: Duration) -> Option<Arc<usize>> {
            self.interest.note();
            let ask = |_| self.server.clone().check();
            self.document.get(max_age, ask).await
        }

        async fn recent(&self) -> Option<Arc<usize>> {
            self.get(Duration::from_millis(1500)).await
        }

        async fn newest(&self) -> Option<Arc<usize>> {
            self.get(Duration::ZERO).await
        }
    }

    async fn with(fails: usize, hangs: usize, test: impl AsyncFn(&Callers, &Server)) {
        let server = Arc::new(Server {
            checks: AtomicUsize::new(0),
            fails,
            hangs,
        });
        let callers = Callers {
            document: Recent::new(None, PACE),
            interest: Interest::new(RHYTHM),
            server: server.clone(),
        };
        let ask = |_| server.clone().check();
        tokio::select! {
            () = callers.document.keep(&callers.interest, ask) => {}
            () = test(&callers, &server) => {}
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[tokio::test(start_paused = true)]
    async fn checks_follow_use() {
        with(usize::MAX, usize::MAX, async |callers, server| {
            assert_eq!(callers.recent().await.as_deref(), Some(&0));
            tokio::time::sleep(seconds(10)).await;
            let checks = server.checks.load(Ordering::Relaxed);
            assert!((9..13).contains(&checks), "{checks}");
            tokio::time::sleep(seconds(195)).await;
            let checks = server.checks.load(Ordering::Relaxed);
            assert!((25..42).contains(&checks), "{checks}");
            // After an idle time, callers wait for a check that begins now.
            assert_eq!(callers.recent().await.as_deref(), Some(&checks));
            let before = Instant::now();
            assert_eq!(callers.recent().await.as_deref(), Some(&checks));
            assert_eq!(before.elapsed(), Duration::ZERO);
            assert_eq!(callers.newest().await.as_deref(), Some(&(checks + 1)));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_known_is_served_of_a_failing_server() {
        with(1, usize::MAX, async |callers, server| {
            assert_eq!(callers.recent().await.as_deref(), Some(&0));
            tokio::time::sleep(seconds(100)).await;
            for _ in 0..1000 {
                assert_eq!(callers.newest().await.as_deref(), Some(&0));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let checks = server.checks.load(Ordering::Relaxed);
            assert!(checks < 40, "{checks}");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_server_is_waited_for_within_bounds() {
        with(usize::MAX, 0, async |callers, _| {
            let before = Instant::now();
            assert_eq!(callers.recent().await, None);
            assert_eq!(before.elapsed(), WAIT);
            assert_eq!(callers.recent().await, None);
            assert_eq!(before.elapsed(), WAIT);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_document_is_asked_for_anew() {
        with(usize::MAX, usize::MAX, async |callers, _| {
            assert_eq!(callers.recent().await.as_deref(), Some(&0));
            callers.document.forget();
            assert_eq!(callers.document.last(), None);
            assert_eq!(callers.recent().await.as_deref(), Some(&1));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_document_may_be_worth_waiting_for() {
        for waits_for_first in [false, true] {
            let pace = Pace {
                waits_for_first,
                ..PACE
            };
            let document = Recent::<usize>::new(None, pace);
            let fails = |_| async { Refreshed::Failed };
            assert_eq!(document.get(Duration::ZERO, fails).await, None);
            tokio::time::sleep(seconds(1)).await;
            let answers = |_| async { Refreshed::Changed(7) };
            let got = document.get(Duration::ZERO, answers).await;
            assert_eq!(got.is_some(), waits_for_first);
        }
    }
}
