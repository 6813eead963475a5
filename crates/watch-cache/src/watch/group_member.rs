//! A watch in a group, and its client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use tokio::sync::Notify;

use super::session::Watch;
use super::watch_client::{Given, WatchClient};
use crate::store::Event;

pub(super) struct Member {
    pub(super) watch: Box<Watch>,
    pub(super) client: Box<dyn WatchClient>,
    gone: Arc<ClientWake>,
    waker: Waker,
}

/// Wakes a group because one of its clients may be gone.
struct ClientWake {
    changed: Arc<Notify>,
    woken: AtomicBool,
}

impl Wake for ClientWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

impl Member {
    pub(super) fn new(
        watch: Box<Watch>,
        client: Box<dyn WatchClient>,
        changed: &Arc<Notify>,
    ) -> Self {
        let gone = Arc::new(ClientWake {
            changed: changed.clone(),
            woken: AtomicBool::new(false),
        });
        Self {
            watch,
            client,
            waker: gone.clone().into(),
            gone,
        }
    }

    /// Tells whether the client is gone. If it goes later, the group is woken.
    pub(super) fn is_gone(&mut self) -> bool {
        self.gone.woken.store(false, Ordering::Release);
        let mut cx = Context::from_waker(&self.waker);
        self.client.poll_gone(&mut cx).is_ready()
    }

    /// Tells whether the client is gone, if it may have gone since the last look.
    pub(super) fn has_gone(&mut self) -> bool {
        self.gone.woken.load(Ordering::Acquire) && self.is_gone()
    }

    /// Gives the client the frames of these events. `frames` is an allocation for
    /// them, and holds them afterwards.
    pub(super) fn give(&mut self, events: &[Arc<Event>], frames: &mut Vec<Bytes>) -> Given {
        frames.clear();
        if self.watch.add_frames(events, frames).is_err() {
            // The watch returns this error when it continues on its own.
            return Given::NoRoom;
        }
        if frames.is_empty() {
            return Given::All;
        }
        match self.client.give(frames) {
            // A client that takes frames may have used up its waker.
            Given::All if self.is_gone() => Given::Gone,
            given => given,
        }
    }
}
