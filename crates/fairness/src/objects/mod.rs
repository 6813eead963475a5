//! The objects of flowcontrol.apiserver.k8s.io/v1 that configure levels and
//! schemas, with the fields that have an effect.

mod defaults;
mod flow_schema;
mod priority_level;

use serde::{Deserialize, Deserializer, Serialize};

pub(crate) use defaults::{CATCH_ALL, EXEMPT, mandatory_flow_schemas, mandatory_priority_levels};
pub use flow_schema::{
    DistinguisherMethod, FlowDistinguisherMethod, FlowSchema, FlowSchemaSpec, GroupSubject,
    NonResourcePolicyRule, PolicyRulesWithSubjects, PriorityLevelReference, ResourcePolicyRule,
    ServiceAccountSubject, Subject, UserSubject,
};
pub use priority_level::{
    ExemptPriorityLevel, LimitResponse, LimitedPriorityLevel, PriorityLevelConfiguration,
    PriorityLevelSpec, QueuingConfiguration,
};

/// All objects of a cluster that configure flow control.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    pub flow_schemas: Vec<FlowSchema>,
    pub priority_levels: Vec<PriorityLevelConfiguration>,
}

impl Objects {
    /// Returns the objects that kube-apiserver creates in a new cluster.
    pub fn defaults() -> Self {
        let mut objects = defaults::suggested();
        objects.flow_schemas.extend(mandatory_flow_schemas());
        objects.priority_levels.extend(mandatory_priority_levels());
        objects
    }
}

/// The metadata that is used: the name, for people and metrics, and the UID, for
/// the response headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Metadata {
    #[serde(default)]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// An object, or a part of the configuration, that is ignored, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    #[error("PriorityLevelConfiguration {name} is ignored: {reason}")]
    PriorityLevel { name: String, reason: &'static str },
    #[error("FlowSchema {name} is ignored: there is no PriorityLevelConfiguration {level}")]
    Dangling { name: String, level: String },
    #[error("the second FlowSchema {name} is ignored")]
    SecondFlowSchema { name: String },
}

/// Reads `null` like an absent field, as Go does.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
