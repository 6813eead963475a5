//! The versions that a watch's bookmarks tell, and when.

use std::time::Duration;

use tokio::time::Instant;

use super::bookmark_timer::BookmarkTimer;

/// Decides when a watch sends a bookmark, and when it ends.
pub(super) struct Bookmarks {
    timer: BookmarkTimer,
    /// The client wants bookmarks.
    wanted: bool,
    /// A version that has no event is told at once.
    at_once: bool,
    /// A bookmark is due, but there was no newer version to tell.
    owed: bool,
    /// The version of the last bookmark.
    told: u64,
}

/// The versions that a client knows.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// The version that it knew when the watch began.
    pub(super) after: u64,
    /// The version of the last event that was read for it.
    pub(super) read_to: u64,
}

impl Bookmarks {
    /// The client knows `version`, and its watch lasts for this time.
    pub(super) fn new(wanted: bool, lasts: Duration, version: u64) -> Self {
        Self {
            timer: BookmarkTimer::new(Instant::now(), lasts),
            wanted,
            at_once: false,
            owed: false,
            told: version,
        }
    }

    pub(super) fn tell_at_once(&mut self) {
        self.at_once = true;
    }

    pub(super) fn are_wanted(&self) -> bool {
        self.wanted
    }

    /// Tells whether a newer version would be told before the next bookmark is due.
    pub(super) fn wait_for_versions(&self) -> bool {
        self.owed || self.at_once
    }

    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// Returns the time at which the watch ends.
    pub(super) fn deadline(&self) -> Instant {
        self.timer.deadline()
    }

    /// Returns when the next bookmark is due or the watch ends, whichever comes
    /// first.
    pub(super) fn next_wake(&self) -> Instant {
        self.timer.next_wake()
    }

    /// Tells whether a bookmark with this version is to be sent now.
    ///
    /// If the client knew the version when the watch began, a bookmark that is due
    /// tells nothing. It is then owed until there is a later version: upstream's
    /// own bookmarks come each minute, too, and may come just after this one was
    /// due.
    pub(super) fn take_due(&mut self, version: u64, known: Known, now: Instant) -> bool {
        self.owed |= self.timer.take_due(now);
        let is_news = self.at_once && version > self.told.max(known.read_to);
        if version <= known.after || !(self.owed || is_news) {
            return false;
        }
        self.owed = false;
        if self.wanted {
            self.told = version;
        }
        self.wanted
    }

    /// Returns the version above which a bookmark is sent as soon as there is one.
    /// `None` if no bookmark waits for a version.
    pub(super) fn awaited(&self, known: Known) -> Option<u64> {
        match self.wanted {
            true if self.at_once => Some(self.told.max(known.read_to)),
            true if self.owed => Some(known.after),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(super) fn set_period(&mut self, period: Duration) {
        self.timer.set_period(period, Instant::now());
    }
}
