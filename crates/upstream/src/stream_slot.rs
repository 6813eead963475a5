//! A place for one stream on a connection that many streams share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use parking_lot::Mutex;

/// The most streams on one connection. Thousands of watches need tens of
/// connections, and the loss of a connection ends no more than this many.
pub(super) const STREAMS_PER_CONNECTION: usize = 100;

/// The time after which a connection without streams is closed, before the API
/// server, or a load balancer on the way, closes it during a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct SharedConnection {
    pub(super) sender: SendRequest<Bytes>,
    /// The streams on this connection, and those about to begin.
    pub(super) streams: AtomicUsize,
    /// The most streams that the server allows.
    pub(super) most: AtomicUsize,
    /// True if the connection takes no more streams.
    pub(super) closed: AtomicBool,
    /// The time at which the last stream ended.
    pub(super) idle_since: Mutex<Instant>,
}

/// A stream's slot on a connection. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct StreamSlot {
    pub(super) connection: Arc<SharedConnection>,
    pub(super) used_before: bool,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        if self.connection.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.connection.idle_since.lock() = Instant::now();
        }
    }
}

impl SharedConnection {
    /// Takes a slot, if the connection has one. Must be called under the lock of
    /// the connections' list.
    pub(super) fn take(self: &Arc<Self>) -> Option<StreamSlot> {
        let most = self
            .most
            .load(Ordering::Relaxed)
            .min(STREAMS_PER_CONNECTION);
        let free = !self.closed.load(Ordering::Acquire);
        if !free || self.streams.load(Ordering::Acquire) >= most {
            return None;
        }
        self.streams.fetch_add(1, Ordering::AcqRel);
        Some(StreamSlot {
            connection: self.clone(),
            used_before: true,
        })
    }

    pub(super) fn is_kept(&self, now: Instant) -> bool {
        let idle = self.streams.load(Ordering::Acquire) == 0;
        let since = *self.idle_since.lock();
        let is_old = idle && now.saturating_duration_since(since) > IDLE_TIMEOUT;
        !is_old && !self.closed.load(Ordering::Acquire)
    }
}

impl StreamSlot {
    /// Tells whether the connection carried requests before this one.
    pub(super) fn used_before(&self) -> bool {
        self.used_before
    }
}
