//! `status.conditions`.

use serde::Deserialize;

use super::meta::nullable;

/// A status with only its conditions.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Conditions {
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    pub r#type: String,
    pub status: String,
    pub reason: String,
}

impl Conditions {
    pub fn first(&self, r#type: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.r#type == r#type)
    }

    pub fn last(&self, r#type: &str) -> Option<&Condition> {
        self.conditions.iter().rfind(|c| c.r#type == r#type)
    }
}
