//! The events of a topic, and the wake-up of those who wait for them.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;

/// The events of one topic, since its first subscription.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) events: RwLock<Events>,
    pub(super) published: Arc<Notify>,
}

#[derive(Debug)]
pub(super) struct Events {
    /// From this sequence number on, `numbers` has all events of the topic that
    /// are in the log. Earlier events of the topic are not known.
    pub(super) since: u64,
    pub(super) numbers: VecDeque<u64>,
    /// The number after the topic's last event that has left the log.
    pub(super) lost: u64,
    pub(super) touched: bool,
}

impl Line {
    pub(super) fn since(next: u64) -> Self {
        Self {
            events: RwLock::new(Events {
                since: next,
                numbers: VecDeque::new(),
                lost: 0,
                touched: false,
            }),
            published: Arc::default(),
        }
    }

    pub(super) fn touch(self: &Arc<Self>, touched: &mut Vec<Arc<Self>>) {
        if !std::mem::replace(&mut self.events.write().touched, true) {
            touched.push(self.clone());
        }
    }
}
