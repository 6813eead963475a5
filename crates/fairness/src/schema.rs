//! A FlowSchema that leads to a level, ready to be matched and counted.

use std::sync::Arc;

use crate::level::Level;
use crate::objects::{DistinguisherMethod, PolicyRulesWithSubjects};

#[derive(Debug)]
pub(crate) struct Schema {
    pub name: String,
    pub uid: String,
    pub precedence: i32,
    pub rules: Vec<PolicyRulesWithSubjects>,
    /// What divides the schema's requests into flows, if its level has several
    /// queues.
    pub distinguisher: Option<DistinguisherMethod>,
    /// Tells whether flows matter, because the level has several queues.
    pub has_flows: bool,
    pub level: Arc<Level>,
    pub level_uid: String,
}
