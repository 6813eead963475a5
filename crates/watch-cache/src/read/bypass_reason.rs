//! The reasons why a read is not answered from the cache.

use crate::reflector::Unavailable;

/// Why a read is not answered from the cache. The metric label, the log field
/// and the debug header use the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BypassReason {
    /// Only upstream can decide this form of request.
    UnusualRequest,
    /// The query parameters do not decode or may not be combined. Upstream
    /// writes the error.
    InvalidOptions,
    /// An unset `resourceVersion` asks for the most recent state, and the
    /// consistency mode leaves that to upstream.
    MostRecent,
    /// The state could not be proven recent.
    NotProvenFresh,
    /// The list asks for a version whose state is not in the cache.
    SnapshotGone,
    /// The cache has not reached the version yet.
    FutureVersion,
    /// The history of events does not reach back to the version.
    HistoryTooShort,
    /// The cache does not index the field of a field selector.
    FieldSelector,
    /// The cache does not make the representation.
    Representation,
    /// The form of this resource's bookmarks is unknown, or upstream does not
    /// know the initial events that the watch wants.
    NoBookmark,
    /// The upgrade is not a WebSocket watch with a proper handshake.
    WatchProtocol,
    /// The configuration excludes the resource from the cache.
    Excluded,
    /// A server behind an APIService answers for the resource. It may show each
    /// caller something else.
    Aggregated,
    /// Like [`Self::Aggregated`]. `cache.aggregated` names the resource, but
    /// shadow mode saw the server's answers differ.
    Withdrawn,
    /// The resource is in shadow mode: upstream answers, and the cache only
    /// compares.
    Shadow,
    /// The first list of the resource is under way.
    Filling,
    /// Upstream does not let apifront list and watch the resource, or sends
    /// answers that cannot be cached.
    NotWatchable,
    /// The cache holds its largest number of resources already.
    TooManyResources,
    /// `cache.memoryLimit` leaves no room for the resource.
    MemoryLimit,
    /// The connection to upstream has been lost for longer than
    /// `cache.maxStaleness`.
    Stale,
    /// The answer is too large to be made for one caller, or a watch has too many
    /// selectors.
    TooCostly,
    /// The caller has not read the object for some time. Upstream authorizes
    /// and answers the read in one request.
    FirstRead,
}

impl BypassReason {
    pub const ALL: [Self; 22] = [
        Self::UnusualRequest,
        Self::InvalidOptions,
        Self::MostRecent,
        Self::NotProvenFresh,
        Self::SnapshotGone,
        Self::FutureVersion,
        Self::HistoryTooShort,
        Self::FieldSelector,
        Self::Representation,
        Self::NoBookmark,
        Self::WatchProtocol,
        Self::Excluded,
        Self::Aggregated,
        Self::Withdrawn,
        Self::Shadow,
        Self::Filling,
        Self::NotWatchable,
        Self::TooManyResources,
        Self::MemoryLimit,
        Self::Stale,
        Self::TooCostly,
        Self::FirstRead,
    ];

    /// Returns advice for the people who run apifront: what to change so that
    /// the read is answered from the cache.
    pub fn advice(self) -> &'static str {
        match self {
            Self::UnusualRequest => {
                "Only the API server can decide this form of request. Look in the access log \
                 for its path and parameters."
            }
            Self::InvalidOptions => {
                "The client sends parameters that are wrong or may not be combined. Find it in \
                 the access log, and mend it."
            }
            Self::MostRecent => {
                "Let the client read at resourceVersion=0, or set cache.consistency: Fresh. See \
                 whether the API server refuses apifront's own reads."
            }
            Self::NotProvenFresh => {
                "The watch upstream is behind. See the age of the resource, and the load of the \
                 API server and the network."
            }
            Self::SnapshotGone => {
                "The client asks for an old version, or pages too slowly. Let it list without \
                 resourceVersionMatch=Exact, or read its pages faster."
            }
            Self::FutureVersion => {
                "The client knows a version that has not arrived here. If that is frequent, the \
                 watch upstream is behind."
            }
            Self::HistoryTooShort => {
                "The client resumes its watch too late: after 5 minutes, or 64 MiB of events. \
                 Let it resume sooner, or ask for bookmarks."
            }
            Self::FieldSelector => {
                "The cache does not know the field. Let the client select by a label, or by a \
                 field that the resource's definition makes selectable."
            }
            Self::Representation => {
                "Let the client ask for JSON. Protobuf and Tables of objects that are newer than \
                 this apifront need a newer apifront."
            }
            Self::NoBookmark => {
                "This ends by itself when the API server sends its first bookmark. Kubernetes \
                 1.34 or newer tells it at once."
            }
            Self::WatchProtocol => {
                "The client's WebSocket handshake is not one that kube-apiserver accepts. Let it \
                 watch over plain HTTP."
            }
            Self::Excluded => {
                "The configuration keeps the resource out: cache.include and cache.exclude. \
                 Events are out by default."
            }
            Self::Aggregated => {
                "An extension API server may answer each caller differently. If it shows the same \
                 to all, name the resource in cache.aggregated."
            }
            Self::Withdrawn => {
                "Shadow mode saw the server show callers different things. Take the resource out of \
                 cache.aggregated; /debug/shadow has the difference."
            }
            Self::Shadow => {
                "The resource is in shadow mode. If /debug/shadow shows no differences, serve it: \
                 cache.mode and cache.resourceModes."
            }
            Self::Filling => {
                "This is usual after a start. Name the resource in cache.preload, so that it is \
                 listed before clients ask."
            }
            Self::NotWatchable => {
                "Let apifront's own user list and watch the resource: see apifront doctor. If it \
                 may, the log tells why the server cannot be followed."
            }
            Self::TooManyResources => {
                "4,096 resources are cached already. Exclude some that nobody needs from memory: \
                 cache.exclude."
            }
            Self::MemoryLimit => {
                "The cache is full. Raise cache.memoryLimit, or exclude large resources that \
                 need not be cached."
            }
            Self::Stale => {
                "The watch upstream was lost for longer than cache.maxStaleness. See the health \
                 of the API servers."
            }
            Self::FirstRead => {
                "This is the cheapest way: upstream must be asked for such a read anyhow. Let the \
                 client read at resourceVersion=0, if any state will do."
            }
            Self::TooCostly => {
                "Let the client ask without indentation (pretty), or with a selector of fewer \
                 requirements."
            }
        }
    }

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
            Self::Aggregated => "aggregated",
            Self::Withdrawn => "withdrawn",
            Self::Shadow => "shadow",
            Self::Filling => "filling",
            Self::NotWatchable => "not_watchable",
            Self::TooManyResources => "too_many_resources",
            Self::MemoryLimit => "memory_limit",
            Self::Stale => "stale",
            Self::TooCostly => "too_costly",
            Self::FirstRead => "first_read",
        }
    }
}

impl From<Unavailable> for BypassReason {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::Excluded => Self::Excluded,
            Unavailable::Aggregated => Self::Aggregated,
            Unavailable::Withdrawn => Self::Withdrawn,
            Unavailable::Filling => Self::Filling,
            Unavailable::Refused => Self::NotWatchable,
            Unavailable::Full => Self::TooManyResources,
            Unavailable::MemoryLimit => Self::MemoryLimit,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_is_explained_in_the_documentation() {
        let document = include_str!("../../../../docs/operations/answers.md");
        for reason in BypassReason::ALL {
            let row = format!("| `{}` |", reason.as_str());
            assert!(document.contains(&row), "no row {row}");
        }
    }

    #[test]
    fn every_reason_has_an_advice_of_its_own() {
        let texts: BTreeSet<&str> = BypassReason::ALL.map(BypassReason::advice).into();
        assert_eq!(texts.len(), BypassReason::ALL.len());
        for text in texts {
            assert!(text.ends_with('.') && text.len() < 160, "{text}");
            assert!(!text.contains("  "), "{text}");
        }
    }
}
