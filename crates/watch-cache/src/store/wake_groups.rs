//! Wakes the subscribers of a line, a group at a time.
//!
//! If a thousand watchers are woken at once, a thousand tasks enter the runtime's
//! queue, and every other request waits behind them. A group is small, and tasks
//! that came meanwhile have their turn before the next group. Events that come while
//! groups are being woken wait for the next round: watchers that are behind get
//! several events at once, which costs less.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// The most subscribers of a group. Writing an event to this many takes a third of a
/// millisecond.
pub(crate) const MAX_GROUP_MEMBERS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct WakeGroups(Mutex<Groups>);

#[derive(Debug, Default)]
struct Groups {
    groups: Vec<Group>,
    round: Round,
    /// The number of rounds. Each begins with another group.
    rounds: usize,
}

#[derive(Debug)]
struct Group {
    wake: Arc<Notify>,
    members: usize,
    /// Whether others may join.
    is_open: bool,
}

/// Whether groups are being woken, one after another.
#[derive(Debug, Default, PartialEq, Eq)]
enum Round {
    #[default]
    None,
    UnderWay,
    /// Something was published since the round began.
    OneMore,
}

/// A subscriber's membership in a group. It ends with [`WakeGroups::leave`].
#[derive(Debug)]
pub(super) struct Member(Arc<Notify>);

impl Member {
    /// Resolves at the group's next turn after this call.
    pub(super) fn woken(&self) -> OwnedNotified {
        self.0.clone().notified_owned()
    }
}

impl WakeGroups {
    pub(super) fn join(&self) -> Member {
        let groups = &mut self.0.lock().groups;
        // Subscribers that join one after the other mostly belong to one connection.
        // In one group, their frames are written together. So the last group is
        // tried first.
        let with_room = groups
            .iter_mut()
            .rev()
            .find(|group| group.is_open && group.members < MAX_GROUP_MEMBERS);
        match with_room {
            Some(group) => {
                group.members = group.members.saturating_add(1);
                Member(group.wake.clone())
            }
            None => begin(groups, true),
        }
    }

    /// Joins as a group of its own: this subscriber writes to a whole group of
    /// clients.
    pub(super) fn join_alone(&self) -> Member {
        begin(&mut self.0.lock().groups, false)
    }

    pub(super) fn leave(&self, member: &Member) {
        let groups = &mut self.0.lock().groups;
        let is_members = |group: &Group| Arc::ptr_eq(&group.wake, &member.0);
        let Some(at) = groups.iter().position(is_members) else {
            return;
        };
        if let Some(group) = groups.get_mut(at) {
            group.members = group.members.saturating_sub(1);
            if group.members == 0 {
                groups.remove(at);
            }
        }
    }

    /// Wakes all members. A single group is woken at once. Several groups are woken
    /// in rounds by a task of their own, so that a line with few members does not
    /// wait for one with many.
    pub(super) fn wake(self: &Arc<Self>) {
        let mut state = self.0.lock();
        if state.groups.len() > 1
            && let Ok(runtime) = Handle::try_current()
        {
            if std::mem::replace(&mut state.round, Round::OneMore) == Round::None {
                state.round = Round::UnderWay;
                runtime.spawn(self.clone().rounds());
            }
            return;
        }
        for group in &state.groups {
            group.wake.notify_waiters();
        }
    }

    async fn rounds(self: Arc<Self>) {
        loop {
            // A subscriber that joins later has read what was published before.
            let groups: Vec<_> = {
                let mut state = self.0.lock();
                state.round = Round::UnderWay;
                state.rounds = state.rounds.wrapping_add(1);
                let all = &state.groups;
                let first = state.rounds.checked_rem(all.len()).unwrap_or(0);
                let from_first = all.iter().cycle().skip(first).take(all.len());
                from_first.map(|group| group.wake.clone()).collect()
            };
            for group in groups {
                group.notify_waiters();
                tokio::task::yield_now().await;
            }
            let mut state = self.0.lock();
            if state.round == Round::UnderWay {
                state.round = Round::None;
                return;
            }
        }
    }
}

fn begin(groups: &mut Vec<Group>, is_open: bool) -> Member {
    let wake = Arc::<Notify>::default();
    groups.push(Group {
        wake: wake.clone(),
        members: 1,
        is_open,
    });
    Member(wake)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(of: &WakeGroups) -> Vec<usize> {
        let groups = &of.0.lock().groups;
        groups.iter().map(|group| group.members).collect()
    }

    #[test]
    fn groups_are_filled_and_left() {
        let line = WakeGroups::default();
        let mut members: Vec<_> = (0..2 * MAX_GROUP_MEMBERS + 1)
            .map(|_| line.join())
            .collect();
        assert_eq!(groups(&line), [MAX_GROUP_MEMBERS, MAX_GROUP_MEMBERS, 1]);
        line.leave(&members.remove(0));
        assert_eq!(groups(&line), [MAX_GROUP_MEMBERS - 1, MAX_GROUP_MEMBERS, 1]);
        line.leave(&members.pop().unwrap());
        assert_eq!(groups(&line), [MAX_GROUP_MEMBERS - 1, MAX_GROUP_MEMBERS]);
        members.push(line.join());
        assert_eq!(groups(&line), [MAX_GROUP_MEMBERS, MAX_GROUP_MEMBERS]);
        let alone = line.join_alone();
        members.push(line.join());
        assert_eq!(groups(&line), [MAX_GROUP_MEMBERS, MAX_GROUP_MEMBERS, 1, 1]);
        line.leave(&alone);
        assert_eq!(groups(&line), [MAX_GROUP_MEMBERS, MAX_GROUP_MEMBERS, 1]);
        members.iter().for_each(|member| line.leave(member));
        assert!(groups(&line).is_empty());
    }

    #[tokio::test]
    async fn others_have_their_turn_between_groups() {
        let line = Arc::new(WakeGroups::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        for n in 0..3 * MAX_GROUP_MEMBERS {
            let (member, order) = (line.join(), order.clone());
            tokio::spawn(async move {
                member.woken().await;
                order.lock().push(Some(n / MAX_GROUP_MEMBERS));
            });
        }
        tokio::task::yield_now().await;
        line.wake();
        tokio::spawn({
            let order = order.clone();
            async move {
                while order.lock().len() < 3 * MAX_GROUP_MEMBERS {
                    order.lock().push(None);
                    tokio::task::yield_now().await;
                }
            }
        });
        while line.0.lock().round != Round::None {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        let order = order.lock();
        for group in 0..3 {
            assert_eq!(
                order.iter().filter(|n| **n == Some(group)).count(),
                MAX_GROUP_MEMBERS
            );
        }
        // The first round begins with the second group.
        let ends = |group| order.iter().rposition(|n| *n == Some(group)).unwrap();
        assert!(order[ends(1)..ends(2)].contains(&None), "{order:?}");
        assert!(order[ends(2)..ends(0)].contains(&None), "{order:?}");
    }

    #[tokio::test]
    async fn what_is_published_in_a_round_is_told_in_the_next() {
        let line = Arc::new(WakeGroups::default());
        let members: Vec<_> = (0..2 * MAX_GROUP_MEMBERS).map(|_| line.join()).collect();
        let first = members[MAX_GROUP_MEMBERS].woken();
        line.wake();
        first.await;
        // The second group has had its turn in this round, the first has not.
        let again = members[MAX_GROUP_MEMBERS].woken();
        line.wake();
        again.await;
        while line.0.lock().round != Round::None {
            tokio::task::yield_now().await;
        }
        assert_eq!(line.0.lock().rounds, 2);
    }

    #[test]
    fn without_a_runtime_all_are_woken_at_once() {
        let line = Arc::new(WakeGroups::default());
        let members: Vec<_> = (0..2 * MAX_GROUP_MEMBERS).map(|_| line.join()).collect();
        let woken: Vec<_> = members.iter().map(|m| Box::pin(m.woken())).collect();
        line.wake();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for mut woken in woken {
            assert!(woken.as_mut().poll(&mut context).is_ready());
        }
    }
}
