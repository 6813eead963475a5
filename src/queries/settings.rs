//! The settings of queries.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueriesSettings {
    /// Whether apifront answers for the API group of queries.
    pub enabled: bool,
}
