//! Shares values, such as clusters, between tests, and ends them when no test has
//! used them for a while: even a waiting cluster costs processor time.

use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// The time for which an unused value is kept. The tests of a suite follow each
/// other closely.
const LINGERS: Duration = Duration::from_secs(10);
const LOOKED_AT_EVERY: Duration = Duration::from_secs(2);

/// A value that its first user starts. It ends some time after the last user has
/// dropped it, and the next user starts it again.
pub struct Shared<T: 'static>(Mutex<State<T>>);

enum State<T> {
    Ended,
    Started {
        value: Arc<T>,
        unused_since: Option<Instant>,
    },
    /// A failure is kept, so that not every test waits for it again.
    Failed(String),
}

impl<T: Send + Sync> Shared<T> {
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Self {
        Self(Mutex::new(State::Ended))
    }

    pub fn get<F, Fut>(&'static self, start: F) -> Arc<T>
    where
        F: FnOnce() -> Fut + Send,
        Fut: Future<Output = T>,
    {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Ended) {
            *state = match started(start) {
                Ok(value) => {
                    end_when_unused(self);
                    State::Started {
                        value: Arc::new(value),
                        unused_since: None,
                    }
                }
                Err(message) => State::Failed(message),
            };
        }
        match &*state {
            State::Started { value, .. } => value.clone(),
            State::Failed(message) => panic!("what tests share did not start: {message}"),
            State::Ended => unreachable!("it was started above"),
        }
    }
}

/// Runs `start` on its own runtime, since a shared value must not belong to the
/// runtime of one test. Returns the message of a panic as an error.
pub fn started<T, F, Fut>(start: F) -> Result<T, String>
where
    T: Send,
    F: FnOnce() -> Fut + Send,
    Fut: Future<Output = T>,
{
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("runtime")
                .block_on(start())
        });
        run.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.unwrap_or_else(|| "it panicked".to_owned())
        })
    })
}

trait EndsUnused: Sync {
    /// Tells whether the value has ended.
    fn end_if_unused(&self) -> bool;
}

impl<T: Send + Sync> EndsUnused for Shared<T> {
    fn end_if_unused(&self) -> bool {
        // Another thread that holds the lock is about to use the value.
        let Ok(mut state) = self.0.try_lock() else {
            return false;
        };
        let State::Started {
            value,
            unused_since,
        } = &mut *state
        else {
            return true;
        };
        if Arc::strong_count(value) > 1 {
            *unused_since = None;
            return false;
        }
        if unused_since.get_or_insert_with(Instant::now).elapsed() < LINGERS {
            return false;
        }
        // Ending takes time. The lock is released first, so that the next user does
        // not wait.
        let ended = std::mem::replace(&mut *state, State::Ended);
        drop(state);
        drop(ended);
        true
    }
}

fn end_when_unused(value: &'static dyn EndsUnused) {
    static VALUES: Mutex<Vec<&'static dyn EndsUnused>> = Mutex::new(Vec::new());
    static WATCHED: Once = Once::new();
    let values = || VALUES.lock().unwrap_or_else(PoisonError::into_inner);
    values().push(value);
    WATCHED.call_once(|| {
        std::thread::spawn(move || {
            loop {
                std::thread::park_timeout(LOOKED_AT_EVERY);
                let started = std::mem::take(&mut *values());
                let left = started.into_iter().filter(|value| !value.end_if_unused());
                let left: Vec<_> = left.collect();
                values().extend(left);
            }
        });
    });
}
