//! The stages of an entry: whether upstream is connected, why the resource is
//! refused, and when the entry ends.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::unavailable::{REFUSED_RETRY_DELAY, Unavailable};

/// The longest time before an unusable resource is tried again.
const MAX_UNUSABLE_DELAY: Duration = Duration::from_secs(600);

/// The state of an entry's connection to upstream, and what ends it.
pub struct Lifecycle {
    connection: Mutex<Connection>,
    /// The number of consecutive answers of upstream that could not be cached.
    unusable: AtomicU32,
    /// The configuration wants the resource filled before the first request for
    /// it.
    preloaded: AtomicBool,
    /// The resource has been within the memory limit once.
    admitted: AtomicBool,
    stop: CancellationToken,
}

#[derive(Clone, Copy, Debug)]
enum Connection {
    Up,
    Down {
        since: Instant,
    },
    /// The resource is not cached, for the reason `why`. It is tried again
    /// after `until`.
    Refused {
        until: Instant,
        why: Unavailable,
    },
    /// The entry has ended. Later requests get a new entry.
    Stopped,
}

impl Lifecycle {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            connection: Mutex::new(Connection::Down { since: now }),
            unusable: AtomicU32::new(0),
            preloaded: AtomicBool::new(false),
            admitted: AtomicBool::new(false),
            stop: CancellationToken::new(),
        }
    }

    /// Takes over the failures of the former entry of the same resource.
    pub(super) fn succeed(&mut self, before: &Self) {
        self.unusable = AtomicU32::new(before.unusable.load(Ordering::Relaxed));
        self.preload(before.is_preloaded());
    }

    /// Returns the time since the connection to upstream was lost. It is zero
    /// while the main watch is open.
    pub fn disconnected_for(&self, now: Instant) -> Duration {
        match *self.connection.lock() {
            Connection::Up => Duration::ZERO,
            Connection::Down { since } => now.saturating_duration_since(since),
            Connection::Refused { .. } | Connection::Stopped => Duration::MAX,
        }
    }

    pub(super) fn refusal(&self) -> Option<(Instant, Unavailable)> {
        match *self.connection.lock() {
            Connection::Refused { until, why } => Some((until, why)),
            Connection::Up | Connection::Down { .. } | Connection::Stopped => None,
        }
    }

    pub(super) fn connected(&self) {
        self.turn(Connection::Up);
    }

    pub(super) fn disconnected(&self, now: Instant) {
        if !matches!(*self.connection.lock(), Connection::Down { .. }) {
            self.turn(Connection::Down { since: now });
        }
    }

    pub(super) fn refuse(&self, why: Unavailable, now: Instant, lasts: Duration) {
        let until = now.checked_add(lasts).unwrap_or(now);
        self.turn(Connection::Refused { until, why });
    }

    /// Returns why a resource without a store cannot be read. After a failed
    /// attempt nobody waits for the next.
    pub(super) fn until_filled(&self) -> Unavailable {
        match self.is_unusable() {
            true => Unavailable::Refused,
            false => Unavailable::Filling,
        }
    }

    pub(super) fn is_unusable(&self) -> bool {
        self.unusable.load(Ordering::Relaxed) > 0
    }

    /// Notes that upstream's answer could not be cached. Returns the time until
    /// the next attempt, which grows with each failure.
    pub(super) fn found_unusable(&self) -> Duration {
        let before = self.unusable.load(Ordering::Relaxed);
        self.unusable
            .store(before.saturating_add(1), Ordering::Relaxed);
        let lasts = REFUSED_RETRY_DELAY.saturating_mul(1 << before.min(10));
        lasts.min(MAX_UNUSABLE_DELAY)
    }

    pub(super) fn found_usable(&self) {
        self.unusable.store(0, Ordering::Relaxed);
    }

    /// Ends the entry for those who ask. [`end`](Self::end) ends its reflector.
    pub(super) fn close(&self) {
        *self.connection.lock() = Connection::Stopped;
    }

    /// Resolves [`ended`](Self::ended).
    pub(super) fn end(&self) {
        self.stop.cancel();
    }

    pub(super) async fn ended(&self) {
        self.stop.cancelled().await;
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(*self.connection.lock(), Connection::Stopped)
    }

    pub(super) fn preload(&self, wanted: bool) {
        self.preloaded.store(wanted, Ordering::Relaxed);
    }

    pub(super) fn is_preloaded(&self) -> bool {
        self.preloaded.load(Ordering::Relaxed)
    }

    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Changes the connection's state, unless the entry has ended.
    fn turn(&self, to: Connection) {
        let mut connection = self.connection.lock();
        if !matches!(*connection, Connection::Stopped) {
            *connection = to;
        }
    }
}
