//! The cost of an answer from the cache for upstream.

/// The question to upstream behind an answer from the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HitCost {
    /// Nothing. The answer is from memory alone.
    #[default]
    Nothing,
    /// The version that upstream has reached.
    Version,
    /// The metadata of one object. The object is then taken from memory.
    Metadata,
    /// The events before the store's history, with which a watch begins.
    Events,
    /// The names and versions of objects. The objects are then taken from
    /// memory.
    Names,
    /// The object itself. That costs upstream as much as without the cache, so
    /// the answer counts as a bypass.
    Object,
    /// Nothing, because this answer shares the object that another one asked
    /// for.
    Shared,
}

impl HitCost {
    /// Returns the name for metrics, the log and the debug header. Empty if
    /// nothing was asked.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Version => "version",
            Self::Metadata => "metadata",
            Self::Events => "events",
            Self::Names => "names",
            Self::Object => "object",
            Self::Shared => "shared",
        }
    }
}
