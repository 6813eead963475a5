//! `status.conditions`.

use serde::Deserialize;

use super::meta::nullable;

/// A status with only its conditions.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition {
    pub(crate) r#type: String,
    pub(crate) status: String,
    pub(crate) reason: String,
}

impl Conditions {
    pub(crate) fn first(&self, r#type: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.r#type == r#type)
    }

    pub(crate) fn last(&self, r#type: &str) -> Option<&Condition> {
        self.conditions.iter().rfind(|c| c.r#type == r#type)
    }
}
