//! The events of a topic, and the wake-up of its subscribers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::wake_groups::WakeGroups;

/// The events of one topic, since its first subscription.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) events: RwLock<Events>,
    pub(super) subscribers: Arc<WakeGroups>,
    /// Counts the publications that subscribers are woken for. The count grows under
    /// the log's lock, before progress shows what was published.
    pub(super) publications: AtomicU64,
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
            subscribers: Arc::default(),
            publications: AtomicU64::new(0),
        }
    }

    pub(super) fn touch(self: &Arc<Self>, touched: &mut Vec<Arc<Self>>) {
        self.publications.fetch_add(1, Ordering::Release);
        if !std::mem::replace(&mut self.events.write().touched, true) {
            touched.push(self.clone());
        }
    }
}
