//! A client of a watch in a group.

use super::super::super::{Given, Tally, Watch, WatchClient};
use super::*;

#[derive(Default)]
pub(super) struct Client {
    pub(super) has_room: bool,
    pub(super) frames: Vec<Bytes>,
    pub(super) gone: bool,
    pub(super) waker: Option<Waker>,
    /// The watch, when it continues on its own.
    pub(super) back: Option<Box<Watch>>,
    pub(super) ended: bool,
}

impl WatchClient for Arc<Mutex<Client>> {
    fn give(&mut self, frames: &[Bytes]) -> Given {
        let mut client = self.lock();
        // h2 does this when it gets capacity.
        if let Some(waker) = client.waker.take() {
            waker.wake();
        }
        if client.gone {
            return Given::Gone;
        }
        if !client.has_room {
            return Given::NoRoom;
        }
        client.frames.extend_from_slice(frames);
        Given::All
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut client = self.lock();
        client.waker = Some(cx.waker().clone());
        match client.gone {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn count(&self, tally: &Tally) {
        let frames: u64 = tally.frames.iter().map(|(_, number)| *number).sum();
        assert!(0 < tally.clients && tally.clients <= frames);
    }

    fn go_on(self: Box<Self>, watch: Box<Watch>) {
        self.lock().back = Some(watch);
    }

    fn end(self: Box<Self>) {
        self.lock().ended = true;
    }
}
