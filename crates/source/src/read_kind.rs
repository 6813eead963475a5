//! The purposes for which a cache reads.

/// The purpose of a request, for metrics and priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// A list that fills a store.
    List,
    /// A watch that keeps a store recent.
    Watch,
    /// A short watch for events from before a store's history.
    EarlierEvents,
    /// A request for the server's current resourceVersion.
    Probe,
    /// A read whose result is compared with the cache.
    SelfCheck,
    /// A read of the newest state, for all callers who wait for it.
    SharedRead,
    Discovery,
}
