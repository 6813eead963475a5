//! A group of watches, as those see it that join and leave.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::group_member::Member;
use crate::store::Cursor;

/// The groups that watches may join, by the line of their topic.
#[derive(Default)]
pub(super) struct OpenGroups(pub(super) Mutex<HashMap<usize, Vec<Arc<Group>>>>);

/// The part of a group that joining watches see.
pub(super) struct Group {
    line: usize,
    pub(super) state: Mutex<State>,
    /// Notified of new members, and of clients that may be gone.
    pub(super) changed: Arc<Notify>,
}

pub(super) struct State {
    pub(super) read: Position,
    /// Members that the group's task has not taken over yet.
    pub(super) new: Vec<Member>,
    /// The number of members, including the new ones.
    pub(super) members: usize,
}

impl Group {
    /// Makes a group of the watches that have read to this place.
    pub(super) fn new(line: usize, read: Position, first: Member, changed: Arc<Notify>) -> Self {
        Self {
            line,
            state: Mutex::new(State {
                read,
                new: vec![first],
                members: 1,
            }),
            changed,
        }
    }
}

impl OpenGroups {
    /// Removes a group, so that nobody joins it any more. Returns the members
    /// that its task has not taken over.
    pub(super) fn remove(&self, group: &Arc<Group>) -> Vec<Member> {
        let mut all = self.0.lock();
        remove(&mut all, group);
        mem::take(&mut group.state.lock().new)
    }

    pub(super) fn remove_empty(&self, group: &Arc<Group>) -> bool {
        let mut all = self.0.lock();
        let is_empty = group.state.lock().members == 0;
        if is_empty {
            remove(&mut all, group);
        }
        is_empty
    }
}

fn remove(all: &mut HashMap<usize, Vec<Arc<Group>>>, group: &Arc<Group>) {
    if let Some(groups) = all.get_mut(&group.line) {
        groups.retain(|other| !Arc::ptr_eq(other, group));
        if groups.is_empty() {
            all.remove(&group.line);
        }
    }
}

/// The place in the log that a group has read to.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) cursor: Cursor,
    /// The number of publications when the log was read to its end.
    pub(super) read_under: Option<u64>,
    /// The version of the last event.
    pub(super) read_to: u64,
}

impl Position {
    pub(super) fn leave(self, member: Member) {
        let Member {
            mut watch, client, ..
        } = member;
        watch.pass(self.cursor, self.read_under, self.read_to);
        client.go_on(watch);
    }
}
