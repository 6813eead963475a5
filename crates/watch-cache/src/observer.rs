//! The interface through which a cache tells its owner what happens in it.

use std::time::Duration;

use kubernetes_wire::api::GroupVersionResource;

/// Hears what a cache does, so that a program can count and show it. A call must
/// return soon. `()` hears nothing.
///
/// Each `state`, `reason` and `result` is one of a few words. Upstream has proven
/// that a resource exists before it is named here.
pub trait Observer: Send + Sync {
    /// A resource's reflector begins to list (`listing`) or to watch (`watching`).
    fn reflector_state(&self, _gvr: &GroupVersionResource, _state: &'static str) {}

    /// Upstream's list or watch of a resource ended before its time, and begins anew.
    fn reflector_restarted(&self, _gvr: &GroupVersionResource, _reason: &'static str) {}

    /// A resource's reflector has ended: the resource is not cached any more. The
    /// resource may never have been named before.
    fn reflector_ended(&self, _gvr: &GroupVersionResource) {}

    /// A resource was compared with upstream, or the comparison was skipped.
    fn self_checked(&self, _gvr: &GroupVersionResource, _result: SelfCheckResult) {}

    /// So many bytes of lists and events are being read, and are in no store yet.
    fn reading(&self, _bytes: usize) {}

    /// This limit of memory is in force. `None` is no limit.
    fn memory_limit(&self, _bytes: Option<usize>) {}

    /// A resource has given up memory.
    fn shed(&self, _what: Shed) {}

    /// A form of a resource was made before a list asked for it.
    fn made_ahead(&self) {}

    /// The files of all saved stores have so many bytes together.
    fn saved_bytes(&self, _bytes: u64) {}

    /// A store was saved.
    fn store_saved(&self, _took: Duration) {}

    /// A store could not be saved, or its file could not be removed.
    fn save_failed(&self) {}

    /// Every store is saved now.
    fn all_saved(&self) {}

    /// A saved store that was found at the start is in use (`resumed`), or is not
    /// used for one of the reasons in
    /// [`SavedStores::REFUSALS`](crate::saved::SavedStores::REFUSALS).
    fn saved_store_read(&self, _result: &'static str) {}
}

impl Observer for () {}

/// The result of comparing a resource with upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfCheckResult {
    Match,
    Mismatch,
    /// The resource could not be compared.
    Skipped,
}

impl SelfCheckResult {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Mismatch => "mismatch",
            Self::Skipped => "skipped",
        }
    }
}

/// The memory that can be given up, from cheap to expensive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// Encodings that nobody asked for in some minutes. They are given up at any
    /// limit.
    Unused,
    /// Encodings that are made again when they are needed.
    Derived,
    /// Events that only resuming watchers need.
    History,
    /// States that only continue tokens need.
    Retained,
    /// A resource that nobody reads at the moment.
    Idle,
    /// A resource for which there was no room.
    Refused,
}

impl Shed {
    pub const ALL: [Self; 6] = [
        Self::Unused,
        Self::Derived,
        Self::History,
        Self::Retained,
        Self::Idle,
        Self::Refused,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Derived => "derived",
            Self::History => "history",
            Self::Retained => "retained",
            Self::Idle => "idle",
            Self::Refused => "refused",
        }
    }
}
