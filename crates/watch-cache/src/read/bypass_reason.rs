//! The reasons why a read is not answered from the cache.

use crate::reflector::Unavailable;

/// One reason per cause. Metric label, log field and debug header use the same
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BypassReason {
    /// A form of request that only upstream can decide.
    UnusualRequest,
    /// Query parameters that do not decode or may not be combined. Upstream has
    /// the error text.
    InvalidOptions,
    /// `resourceVersion` is unset, which asks for the most recent state, and
    /// the consistency mode lets upstream answer that.
    MostRecent,
    /// The state could not be proven recent.
    NotProvenFresh,
    /// A list at a version whose state is not in the cache.
    SnapshotGone,
    /// A version that the cache has not reached yet.
    FutureVersion,
    /// A version that the history of events does not cover.
    HistoryTooShort,
    /// A field selector on a field that the cache does not index.
    FieldSelector,
    /// A representation that the cache does not make.
    Representation,
    /// The bookmark of this resource has not been learnt, or upstream does not
    /// know the initial events that the watch wants.
    NoBookmark,
    /// An upgrade that is not a WebSocket watch with a proper handshake.
    WatchProtocol,
    /// The configuration excludes the resource from the cache.
    Excluded,
    /// The resource is in shadow mode: upstream answers, and the cache only
    /// compares.
    Shadow,
    /// The first list of the resource is under way.
    Filling,
    /// Upstream does not let apifront list and watch the resource.
    NotWatchable,
    /// More resources than the cache takes.
    TooManyResources,
    /// `cache.memoryLimit` leaves no room for the resource.
    MemoryLimit,
    /// Upstream was lost longer ago than `cache.maxStaleness`.
    Stale,
    /// An answer that is too large to be made for one caller.
    TooCostly,
}

impl BypassReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnusualRequest => "unusual_request",
            Self::InvalidOptions => "invalid_options",
            Self::MostRecent => "most_recent",
            Self::NotProvenFresh => "not_proven_fresh",
            Self::SnapshotGone => "snapshot_gone",
            Self::FutureVersion => "future_version",
            Self::HistoryTooShort => "history_too_short",
            Self::FieldSelector => "field_selector",
            Self::Representation => "representation",
            Self::NoBookmark => "no_bookmark",
            Self::WatchProtocol => "watch_protocol",
            Self::Excluded => "excluded",
            Self::Shadow => "shadow",
            Self::Filling => "filling",
            Self::NotWatchable => "not_watchable",
            Self::TooManyResources => "too_many_resources",
            Self::MemoryLimit => "memory_limit",
            Self::Stale => "stale",
            Self::TooCostly => "too_costly",
        }
    }
}

impl From<Unavailable> for BypassReason {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::Excluded => Self::Excluded,
            Unavailable::Filling => Self::Filling,
            Unavailable::Refused => Self::NotWatchable,
            Unavailable::Full => Self::TooManyResources,
            Unavailable::MemoryLimit => Self::MemoryLimit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [BypassReason; 19] = [
        BypassReason::UnusualRequest,
        BypassReason::InvalidOptions,
        BypassReason::MostRecent,
        BypassReason::NotProvenFresh,
        BypassReason::SnapshotGone,
        BypassReason::FutureVersion,
        BypassReason::HistoryTooShort,
        BypassReason::FieldSelector,
        BypassReason::Representation,
        BypassReason::NoBookmark,
        BypassReason::WatchProtocol,
        BypassReason::Excluded,
        BypassReason::Shadow,
        BypassReason::Filling,
        BypassReason::NotWatchable,
        BypassReason::TooManyResources,
        BypassReason::MemoryLimit,
        BypassReason::Stale,
        BypassReason::TooCostly,
    ];

    #[test]
    fn every_reason_is_explained_in_the_documentation() {
        let document = include_str!("../../../../docs/operations.md");
        for reason in ALL {
            let row = format!("| `{}` |", reason.as_str());
            assert!(document.contains(&row), "no row {row}");
        }
    }
}
