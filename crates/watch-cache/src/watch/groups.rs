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

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::Watch;
use crate::store::{Cursor, Event, Evicted, Store, Subscription, WATCHES_PER_GROUP};

/// The bytes of events that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// The longest time that a group works before other tasks have their turn. Most
/// frames exist already, and 64 clients take a tenth of this. A frame that only
/// one watch sees has to be made.
const MAX_TURN_TIME: Duration = Duration::from_micros(500);

/// The client of a watch in a group.
pub trait WatchClient: Send {
    /// Gives the client all frames if it has room for them, or none.
    fn give(&mut self, frames: &[Bytes]) -> Given;

    /// Resolves when the client is gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Counts the frames that the clients of one group were given. All of them
    /// watch one resource.
    fn count(&self, tally: &Tally);

    /// Continues the watch in a task of its own.
    fn go_on(self: Box<Self>, watch: Box<Watch>);

    /// Ends the watch of a client that is gone.
    fn end(self: Box<Self>);
}

/// Whether a client took its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    All,
    NoRoom,
    Gone,
}

/// The frames that the clients of a group were given at a time.
#[derive(Debug, Default)]
pub struct Tally {
    /// The lengths of frames, and how many frames had each length.
    pub frames: Vec<(usize, u64)>,
    /// The number of clients.
    pub clients: u64,
    /// The time since the oldest event arrived in the store.
    pub waited: Duration,
}

impl Tally {
    fn add(&mut self, frames: &[Bytes]) {
        self.clients = self.clients.saturating_add(1);
        for frame in frames {
            let of = |(length, _): &&mut (usize, u64)| *length == frame.len();
            match self.frames.iter_mut().find(of) {
                Some((_, number)) => *number = number.saturating_add(1),
                None => self.frames.push((frame.len(), 1)),
            }
        }
    }
}

/// The groups of all topics.
#[derive(Default)]
pub struct WatchGroups(Mutex<HashMap<usize, Vec<Arc<Group>>>>);

/// The part of a group that joining watches see.
struct Group {
    line: usize,
    state: Mutex<State>,
    /// Notified of new members, and of clients that may be gone.
    changed: Arc<Notify>,
}

struct State {
    read: Position,
    /// Members that the group's task has not taken over yet.
    new: Vec<Member>,
    /// The number of members, including the new ones.
    members: usize,
}

struct Member {
    watch: Box<Watch>,
    client: Box<dyn WatchClient>,
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

impl WatchGroups {
    /// Takes over a watch that [waits for events](Watch::waits_for_events).
    /// When the watch needs more than events, its client continues it. All
    /// clients do so when `stopping` turns true.
    pub fn join(
        self: &Arc<Self>,
        mut watch: Box<Watch>,
        client: Box<dyn WatchClient>,
        stopping: &Receiver<bool>,
    ) {
        watch.rest();
        let mut all = self.0.lock();
        let groups = all.entry(watch.line_id()).or_default();
        // Watches that join one after the other are often from one connection,
        // so the last group is tried first.
        for group in groups.iter().rev() {
            let mut state = group.state.lock();
            if state.members >= WATCHES_PER_GROUP {
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
        let group = Arc::new(Group {
            line: watch.line_id(),
            state: Mutex::new(State {
                read: Position {
                    cursor,
                    read_under,
                    read_to: 0,
                },
                new: vec![Member::new(watch, client, &changed)],
                members: 1,
            }),
            changed,
        });
        groups.push(group.clone());
        let task = GroupTask {
            groups: self.clone(),
            group,
            store,
            subscription,
            members: Vec::new(),
            wake_at: None,
            frames: Vec::new(),
        };
        tokio::spawn(task.run(stopping.clone()));
    }

    /// Removes a group, so that nobody joins it any more. Returns the members
    /// that its task has not taken over.
    fn remove(&self, group: &Arc<Group>) -> Vec<Member> {
        let mut all = self.0.lock();
        remove(&mut all, group);
        mem::take(&mut group.state.lock().new)
    }

    fn remove_empty(&self, group: &Arc<Group>) -> bool {
        let mut all = self.0.lock();
        let is_empty = group.state.lock().members == 0;
        if is_empty {
            remove(&mut all, group);
        }
        is_empty
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> Vec<usize> {
        let all = self.0.lock();
        let groups = all.values().flatten();
        groups.map(|group| group.state.lock().members).collect()
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

impl Member {
    fn new(watch: Box<Watch>, client: Box<dyn WatchClient>, changed: &Arc<Notify>) -> Self {
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
    fn is_gone(&mut self) -> bool {
        self.gone.woken.store(false, Ordering::Release);
        let mut cx = Context::from_waker(&self.waker);
        self.client.poll_gone(&mut cx).is_ready()
    }

    fn give(&mut self, events: &[Arc<Event>], frames: &mut Vec<Bytes>) -> Given {
        frames.clear();
        if self.watch.frames_of(events, frames).is_err() {
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

struct GroupTask {
    groups: Arc<WatchGroups>,
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
    async fn run(mut self, mut stopping: Receiver<bool>) {
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
            if member.gone.woken.load(Ordering::Acquire) && member.is_gone() {
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

/// The place in the log that a group has read to.
#[derive(Clone, Copy)]
struct Position {
    cursor: Cursor,
    /// The number of publications when the log was read to its end.
    read_under: Option<u64>,
    /// The version of the last event.
    read_to: u64,
}

impl Position {
    fn leave(self, member: Member) {
        let Member {
            mut watch, client, ..
        } = member;
        watch.pass(self.cursor, self.read_under, self.read_to);
        client.go_on(watch);
    }
}
