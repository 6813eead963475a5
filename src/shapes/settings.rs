//! The settings of the rules.

use apifront_watch_cache::ResourcePattern;

use crate::authz::NamedCallers;

/// A rule about the shape of some reads' answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeRule {
    /// The name, by which metrics and reports show the rule.
    pub name: String,
    /// The callers whose reads the rule names. `None` for all.
    pub callers: Option<NamedCallers>,
    /// The beginnings of the User-Agent headers that the rule names. All if it is empty.
    pub user_agents: Vec<String>,
    pub resources: Vec<ResourcePattern>,
    pub managed_fields: ManagedFields,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedFields {
    Drop,
    Keep,
}
