//! The clients of watches that wait in a group.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use super::session::Watch;

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
    pub(super) fn add(&mut self, frames: &[Bytes]) {
        self.clients = self.clients.saturating_add(1);
        for frame in frames {
            let is_same = |(length, _): &&mut (usize, u64)| *length == frame.len();
            match self.frames.iter_mut().find(is_same) {
                Some((_, number)) => *number = number.saturating_add(1),
                None => self.frames.push((frame.len(), 1)),
            }
        }
    }
}
