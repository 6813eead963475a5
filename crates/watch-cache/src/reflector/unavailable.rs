//! Why a resource cannot be read from the cache, and for how long.

use std::time::Duration;

/// The time before a resource that upstream refused is tried again.
pub(super) const REFUSED_RETRY_DELAY: Duration = Duration::from_secs(10);

/// The time before a resource that did not fit is tried again. Each attempt
/// costs upstream a list.
pub(super) const MEMORY_RETRY_DELAY: Duration = Duration::from_secs(300);

/// Why a resource cannot be read from the cache now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The configuration excludes it.
    #[error("the configuration excludes it")]
    Excluded,
    /// A server behind an APIService answers for it. It may show each caller
    /// something else.
    #[error("another server than the API server answers for it")]
    Aggregated,
    /// Like [`Self::Aggregated`]. The configuration says that all callers see
    /// the same, but the answers were found to differ.
    #[error("its server shows callers different things")]
    Withdrawn,
    /// The first list is under way.
    #[error("its first list is under way")]
    Filling,
    /// Upstream does not let apifront list and watch it, or sends answers that
    /// cannot be cached.
    #[error("it cannot be listed and watched, or its answers cannot be cached")]
    Refused,
    /// Too many resources are cached already.
    #[error("too many resources are cached already")]
    Full,
    /// The memory limit leaves no room for it.
    #[error("the memory limit leaves no room for it")]
    MemoryLimit,
}
