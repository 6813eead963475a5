//! FlowSchemas: they say which level a request goes to, and what its flow is.

use serde::{Deserialize, Serialize};

use super::{Metadata, null_is_default};

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct FlowSchema {
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: FlowSchemaSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowSchemaSpec {
    #[serde(default)]
    pub priority_level_configuration: PriorityLevelReference,
    /// The schema with the lowest number is chosen among those that match.
    #[serde(default)]
    pub matching_precedence: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinguisher_method: Option<FlowDistinguisherMethod>,
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub rules: Vec<PolicyRulesWithSubjects>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PriorityLevelReference {
    #[serde(default)]
    pub name: String,
}

/// The property that divides the requests of a schema into flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct FlowDistinguisherMethod {
    #[serde(rename = "type")]
    pub method: DistinguisherMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum DistinguisherMethod {
    ByUser,
    ByNamespace,
}

/// Matches a request if one of the subjects and one of the rules match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRulesWithSubjects {
    #[serde(default, deserialize_with = "null_is_default")]
    pub subjects: Vec<Subject>,
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_rules: Vec<ResourcePolicyRule>,
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_rules: Vec<NonResourcePolicyRule>,
}

/// A caller or a set of callers. `kind` says which field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    #[serde(default)]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserSubject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupSubject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountSubject>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct UserSubject {
    #[serde(default)]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GroupSubject {
    #[serde(default)]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ServiceAccountSubject {
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcePolicyRule {
    #[serde(default, deserialize_with = "null_is_default")]
    pub verbs: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub api_groups: Vec<String>,
    /// Resources, and subresources in the form `pods/log`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub resources: Vec<String>,
    /// Whether requests without a namespace match.
    #[serde(default)]
    pub cluster_scope: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    pub namespaces: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct NonResourcePolicyRule {
    #[serde(default, deserialize_with = "null_is_default")]
    pub verbs: Vec<String>,
    #[serde(
        default,
        rename = "nonResourceURLs",
        deserialize_with = "null_is_default"
    )]
    pub non_resource_urls: Vec<String>,
}
