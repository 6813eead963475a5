//! One caller floods, and another one's requests are timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// Beside a flood on two cores a request is slow for want of a processor, and
/// that differs from run to run. Behind the flood in one queue it takes longer
/// than this.
const FLOOR: Duration = Duration::from_secs(1);

/// How long one caller's requests took.
#[derive(Debug)]
pub struct Times {
    sorted: Vec<Duration>,
    pub errors: usize,
}

impl Times {
    /// Of so many requests, one after the other. `ask` tells whether it was
    /// answered as it should be.
    pub async fn of(count: usize, ask: impl AsyncFn(usize) -> bool) -> Self {
        let (mut sorted, mut errors) = (Vec::new(), 0);
        for n in 0..count {
            let began = Instant::now();
            errors += usize::from(!ask(n).await);
            sorted.push(began.elapsed());
        }
        sorted.sort();
        Self { sorted, errors }
    }

    fn percentile(&self, percent: usize) -> Duration {
        let last = self.sorted.len() - 1;
        self.sorted[(self.sorted.len() * percent / 100).min(last)]
    }

    fn show(&self, what: &str) {
        println!(
            "{what}: {} requests, p50 {:.1?}, p99 {:.1?}, errors {}",
            self.sorted.len(),
            self.percentile(50),
            self.percentile(99),
            self.errors
        );
    }
}

/// Prints both, and fails if the flood was noticed.
#[track_caller]
pub fn unharmed(what: &str, quiet: &Times, attacked: &Times) {
    quiet.show(&format!("{what}, quiet"));
    attacked.show(&format!("{what}, attacked"));
    assert_eq!((quiet.errors, attacked.errors), (0, 0), "{what}");
    let most = (quiet.percentile(99) * 3).max(FLOOR);
    let p99 = attacked.percentile(99);
    assert!(p99 <= most, "{what}: p99 {p99:?}, at most {most:?}");
}

/// Requests without pause, until it is dropped.
pub struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Flood {
    /// `ask(n)` for every n, so many at a time.
    pub async fn start<F>(
        at_a_time: usize,
        ask: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let (stop, sent) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let ask = Arc::new(ask);
        let mut tasks = JoinSet::new();
        for _ in 0..at_a_time {
            let (stop, sent, ask) = (stop.clone(), sent.clone(), ask.clone());
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    ask(sent.fetch_add(1, Ordering::Relaxed)).await;
                }
            });
        }
        // Until it is under way.
        tokio::time::sleep(Duration::from_secs(2)).await;
        Self {
            stop,
            sent,
            _tasks: tasks,
        }
    }

    pub fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.sent.load(Ordering::Relaxed)
    }
}
