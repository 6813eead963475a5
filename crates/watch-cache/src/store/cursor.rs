//! A reader's place in the log.

/// A reader's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Sequence number of the next event.
    pub(super) next: u64,
    /// The reader knew everything up to this version when it began. Gaps that
    /// the reader has passed since raise it.
    pub(super) version: u64,
}

impl Cursor {
    /// Returns the number of events between two places.
    pub(super) fn distance(self, other: Self) -> u64 {
        self.next.abs_diff(other.next)
    }

    /// Tells whether no event is between two places.
    pub(crate) fn is_at(self, other: Self) -> bool {
        self.next == other.next
    }

    pub(crate) fn is_before(self, other: Self) -> bool {
        self.next < other.next
    }

    /// Returns the later place of the two, for this one's reader.
    pub(crate) fn advanced_to(self, other: Self) -> Self {
        Self {
            next: self.next.max(other.next),
            ..self
        }
    }

    /// Returns the same place for a reader that knows everything up to
    /// `version`.
    pub(super) fn knowing(self, version: u64) -> Self {
        Self { version, ..self }
    }
}
