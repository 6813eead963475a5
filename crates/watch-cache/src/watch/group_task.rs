//! The task of a group of watches: it reads the log once, and gives the frames to
//! each client.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::group::{Group, OpenGroups, Position};
use super::group_member::Member;
use super::watch_client::{Given, Tally};
use crate::store::{Event, Evicted, Store, Subscription};

/// The bytes of events that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// The longest time that a group works before other tasks have their turn. Most
/// frames exist already, and 64 clients take a tenth of this. A frame that only
/// one watch sees has to be made.
const MAX_TURN_TIME: Duration = Duration::from_micros(500);

pub(super) struct GroupTask {
    groups: Arc<OpenGroups>,
    group: Arc<Group>,
    store: Arc<Store>,
    subscription: Subscription,
    members: Vec<Member>,
    /// The time at which the first member has something to do on its own.
    wake_at: Option<Instant>,
    /// The frames for one client. The allocation is reused.
    frames: Vec<Bytes>,
}

/// The group ends, and its members continue on their own.
struct Dissolved;

impl GroupTask {
    pub(super) fn new(
        groups: Arc<OpenGroups>,
        group: Arc<Group>,
        store: Arc<Store>,
        subscription: Subscription,
    ) -> Self {
        Self {
            groups,
            group,
            store,
            subscription,
            members: Vec::new(),
            wake_at: None,
            frames: Vec::new(),
        }
    }

    pub(super) async fn run(mut self, mut stopping: Receiver<bool>) {
        // The future keeps the receiver while the group lives.
        let stopped = async move {
            if stopping.wait_for(|stop| *stop).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::pin!(stopped);
        loop {
            let published = self.subscription.published();
            if self.read().await.is_err() || self.store.progress().closed {
                return self.dissolve();
            }
            self.let_due_go_on(Instant::now());
            if self.members.is_empty() && self.groups.remove_empty(&self.group) {
                return;
            }
            let due = async {
                match self.wake_at {
                    Some(wake_at) => sleep_until(wake_at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = published => {}
                () = self.group.changed.notified() => {}
                () = due => {}
                () = &mut stopped => return self.dissolve(),
            }
            self.end_gone();
        }
    }

    /// Lets all members continue on their own, from the place that the group
    /// has read to.
    fn dissolve(mut self) {
        let new = self.groups.remove(&self.group);
        self.members.extend(new);
        let members = mem::take(&mut self.members);
        members.into_iter().for_each(|member| self.go_on(member));
    }

    /// Reads the log to its end, and gives all members what was read.
    async fn read(&mut self) -> Result<(), Dissolved> {
        loop {
            let known = self.members.len();
            let read = self.read_some();
            self.admit(known);
            let (start, events, are_all) = read.map_err(|Evicted { .. }| Dissolved)?;
            if !events.is_empty() {
                self.give(start, &events).await;
            }
            if are_all {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the next events, the place before them, and whether they are
    /// all. Takes over new members, because these events are for them, too.
    fn read_some(&mut self) -> Result<(Position, Vec<Arc<Event>>, bool), Evicted> {
        let state = &mut *self.group.state.lock();
        self.members.append(&mut state.new);
        let start = Position {
            read_under: None,
            ..state.read
        };
        let publications = self.subscription.publications();
        if state.read.read_under == Some(publications) {
            return Ok((start, Vec::new(), true));
        }
        let (events, are_all) = self.store.read_topic_for_all(
            &self.subscription,
            &mut state.read.cursor,
            READ_BYTES,
        )?;
        if let Some(last) = events.last() {
            state.read.read_to = last.resource_version;
        }
        state.read.read_under = are_all.then_some(publications);
        Ok((start, events, are_all))
    }

    /// Takes over the new members, which begin at this index.
    fn admit(&mut self, from: usize) {
        let mut at = from;
        while let Some(member) = self.members.get_mut(at) {
            if member.is_gone() {
                self.remove(at).client.end();
                continue;
            }
            let wake_at = member.watch.wake_at();
            self.wake_at = Some(self.wake_at.map_or(wake_at, |other| other.min(wake_at)));
            at = at.saturating_add(1);
        }
    }

    async fn give(&mut self, start: Position, events: &[Arc<Event>]) {
        let mut tally = Tally::default();
        let mut frames = mem::take(&mut self.frames);
        let mut began = Instant::now();
        let mut at = 0;
        while let Some(member) = self.members.get_mut(at) {
            if began.elapsed() > MAX_TURN_TIME {
                tokio::task::yield_now().await;
                began = Instant::now();
                continue;
            }
            match member.give(events, &mut frames) {
                Given::All => {
                    if !frames.is_empty() {
                        tally.add(&frames);
                    }
                    at = at.saturating_add(1);
                }
                Given::Gone => self.remove(at).client.end(),
                Given::NoRoom => {
                    let member = self.remove(at);
                    start.leave(member);
                }
            }
        }
        frames.clear();
        self.frames = frames;
        if let (Some(event), Some(member)) = (events.first(), self.members.first())
            && tally.clients > 0
        {
            tally.waited = event.recorded_at.elapsed();
            member.client.count(&tally);
        }
    }

    fn end_gone(&mut self) {
        let mut at = 0;
        while let Some(member) = self.members.get_mut(at) {
            if member.has_gone() {
                self.remove(at).client.end();
            } else {
                at = at.saturating_add(1);
            }
        }
    }

    /// Lets members continue on their own if their bookmark or end is due.
    fn let_due_go_on(&mut self, now: Instant) {
        if self.wake_at.is_none_or(|wake_at| now < wake_at) {
            return;
        }
        let mut at = 0;
        self.wake_at = None;
        while let Some(member) = self.members.get(at) {
            let wake_at = member.watch.wake_at();
            if wake_at <= now {
                let member = self.remove(at);
                self.go_on(member);
                continue;
            }
            self.wake_at = Some(self.wake_at.map_or(wake_at, |other| other.min(wake_at)));
            at = at.saturating_add(1);
        }
    }

    fn remove(&mut self, at: usize) -> Member {
        let state = &mut *self.group.state.lock();
        state.members = state.members.saturating_sub(1);
        self.members.swap_remove(at)
    }

    /// Lets a member continue on its own, from the place that the group has
    /// read to.
    fn go_on(&self, member: Member) {
        let position = self.group.state.lock().read;
        position.leave(member);
    }
}
