//! What upstream was asked for an answer that the cache gives.

/// The question behind an answer of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HitCost {
    /// Nothing: the answer is from memory alone.
    #[default]
    Nothing,
    /// Its version.
    Version,
    /// The metadata of one object, which is then taken from memory.
    Metadata,
    /// The events before the history, with which a watch begins.
    Events,
    /// The names and versions of objects, which are then taken from memory.
    Names,
    /// The object itself, which costs upstream what it would cost without the cache:
    /// such an answer counts as a bypass.
    Object,
    /// Nothing for this answer: it shares the object of another one.
    Shared,
}

impl HitCost {
    /// Returns the word for it in metrics, the log and the debug header. Empty if
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
