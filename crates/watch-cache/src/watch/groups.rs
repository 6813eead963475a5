//! Watches that wait for events, in groups that share a task.
//!
//! Most watches wait, and an event usually concerns many of them. A watch that
//! has nothing to hand out leaves its own task and joins a group of its topic.
//! The group reads an event once and gives its frame to each client that has
//! room for it. A watch leaves the group when it needs more: its client has no
//! room, its bookmark or its end is due, or its history differs from the
//! others'.
//!
//! ```text
//!          joins when nothing is left to hand out
//! own task ──────────────────────────────────────▶ group: read once, give to each
//!     ▲                                              │
//!     └── no room, bookmark due, end, resync ────────┘
//! ```

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::watch::Receiver;

use super::group::{Group, OpenGroups, Position};
use super::group_member::Member;
use super::group_task::GroupTask;
use super::session::Watch;
use super::watch_client::WatchClient;
use crate::store::MAX_GROUP_MEMBERS;

/// The groups of all topics.
#[derive(Default)]
pub struct WatchGroups(Arc<OpenGroups>);

impl WatchGroups {
    /// Takes over a watch that [waits for events](Watch::waits_for_events).
    /// When the watch needs more than events, its client continues it. All
    /// clients do so when `stopping` turns true.
    pub fn join(
        &self,
        mut watch: Box<Watch>,
        client: Box<dyn WatchClient>,
        stopping: &Receiver<bool>,
    ) {
        watch.rest();
        let mut all = self.0.0.lock();
        let groups = all.entry(watch.line_id()).or_default();
        // Watches that join one after the other are often from one connection,
        // so the last group is tried first.
        for group in groups.iter().rev() {
            let mut state = group.state.lock();
            if state.members >= MAX_GROUP_MEMBERS {
                continue;
            }
            if !watch.has_read_to(state.read.cursor) {
                // An event was published meanwhile.
                drop(state);
                drop(all);
                client.go_on(watch);
                return;
            }
            state.members = state.members.saturating_add(1);
            state.new.push(Member::new(watch, client, &group.changed));
            group.changed.notify_one();
            return;
        }
        let (subscription, cursor, read_under) = watch.position();
        let store = watch.store().clone();
        let changed = Arc::<Notify>::default();
        let read = Position {
            cursor,
            read_under,
            read_to: 0,
        };
        let line = watch.line_id();
        let first = Member::new(watch, client, &changed);
        let group = Arc::new(Group::new(line, read, first, changed));
        groups.push(group.clone());
        let task = GroupTask::new(self.0.clone(), group, store, subscription);
        tokio::spawn(task.run(stopping.clone()));
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> Vec<usize> {
        let all = self.0.0.lock();
        let groups = all.values().flatten();
        groups.map(|group| group.state.lock().members).collect()
    }
}
