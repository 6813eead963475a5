//! A document of another server, kept as recent as somebody needs it.
//!
//! A caller says how old the document may be. If it is older, all callers wait
//! for one question that began late enough. If the question takes long or
//! fails, they get the last document there was, and while it goes on failing
//! nobody waits.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::interest::Interest;

/// How callers and servers are spared.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a caller waits for a question.
    pub wait: Duration,
    /// The least time between the beginnings of two questions.
    pub gap: Duration,
    /// The same after a question that failed: a broken server is not asked more
    /// often however many callers there are.
    pub retry: Duration,
    /// Whether a caller waits for a server that fails while there is no
    /// document to give instead.
    pub waits_for_first: bool,
}

/// The result of a question to the document's server.
#[derive(Debug)]
pub enum Refreshed<T> {
    Changed(T),
    Unchanged,
    /// The server has no such document.
    NotFound,
    /// The server did not say whether it has one: the last document stays.
    Failed,
}

#[derive(Debug)]
pub struct Recent<T> {
    pace: Pace,
    state: Mutex<State<T>>,
    /// Moves at the end of each question.
    ended: watch::Sender<u64>,
}

#[derive(Debug)]
struct State<T> {
    document: Option<Arc<T>>,
    /// When the question began that last confirmed `document`, or its absence.
    confirmed: Option<Instant>,
    /// When the last question began, or begins.
    asked: Option<Instant>,
    in_flight: bool,
    failing: bool,
    /// A caller waited as long as callers do, in vain, since the last question
    /// that succeeded.
    late: bool,
    /// Raised when the server was replaced: answers of the old one are void.
    epoch: u64,
}

/// The answer to a caller, as far as there is one now.
enum Ready<T> {
    /// This is as recent as the caller wants it.
    Recent(Option<Arc<T>>),
    /// This is older, but waiting for better would be in vain.
    Last(Option<Arc<T>>),
    /// At the end of a question.
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

    /// The earliest time for the next question.
    fn next(&self, pace: &Pace) -> Option<Instant> {
        let least = if self.failing { pace.retry } else { pace.gap };
        self.asked?.checked_add(least)
    }

    /// Decides about a caller that came at `now`.
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
    /// `known` is what an earlier one of the same document knew.
    pub fn new(known: Option<Arc<T>>, pace: Pace) -> Arc<Self> {
        Arc::new(Self {
            pace,
            state: Mutex::new(State::new(known, 0)),
            ended: watch::channel(0).0,
        })
    }

    /// The last document, whatever its age.
    pub fn last(&self) -> Option<Arc<T>> {
        self.state.lock().document.clone()
    }

    /// When the document was last known to be current.
    pub fn confirmed(&self) -> Option<Instant> {
        self.state.lock().confirmed
    }

    /// Forgets the document: its server is another one now.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        *state = State::new(None, state.epoch.wrapping_add(1));
    }
}

impl<T> Refreshed<T> {
    /// The name of the result in metrics.
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
    /// A document no older than `max_age`, if that can be had soon, or else the
    /// last one. `None`: there is none. `ask` puts the question, given the last
    /// document.
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

    /// Asks again, unless that is being done, or was done just now.
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

    /// Asks for ever, as often as somebody's interest in the document demands.
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

    /// The question is a task of its own: it ends in any case, whoever waits.
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

    /// A server whose document is the number of the check; from `fails` on it
    /// fails, from `hangs` on it does not answer.
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

    /// Callers of one document.
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
            // After idling, a check that begins now.
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
