//! Field selectors: the labels that a resource has, and their values.

use kubernetes_wire::api::{FieldSelector, Status, query::go_quote};
use serde_json::Value;

use super::resource::Resource;

impl Resource {
    /// Refuses labels that this resource does not have, as the kind's conversion in
    /// Go does.
    pub(crate) fn check_fields(&self, selector: &FieldSelector) -> Result<(), Status> {
        for requirement in &selector.requirements {
            let label = requirement.field.as_str();
            if !self.has_field(label) {
                return Err(Status::bad_request(self.unknown_field(label)));
            }
        }
        Ok(())
    }

    fn has_field(&self, label: &str) -> bool {
        match label {
            "metadata.name" => true,
            // The default conversion accepts it even for cluster-scoped built-in
            // kinds.
            "metadata.namespace" => {
                self.namespaced || (self.custom.is_none() && !self.fields.own_error)
            }
            _ => self.fields.extra.iter().any(|(known, _)| known == label),
        }
    }

    fn unknown_field(&self, label: &str) -> String {
        if self.kind == "Job" {
            format!("field label {} not supported for Job", go_quote(label))
        } else if self.fields.own_error || self.custom.is_some() {
            format!("field label not supported: {label}")
        } else {
            format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                go_quote(label)
            )
        }
    }

    pub(crate) fn matches_fields(&self, selector: &FieldSelector, object: &Value) -> bool {
        selector.matches(|label| self.field(label, object))
    }

    /// Returns the value of a field. Booleans and numbers are compared as Go prints
    /// them. An absent boolean is false, an absent number 0, and an absent string
    /// empty.
    fn field(&self, label: &str, object: &Value) -> String {
        let pointer = match label {
            "metadata.name" => "/metadata/name",
            "metadata.namespace" => "/metadata/namespace",
            _ => self
                .fields
                .extra
                .iter()
                .find(|(known, _)| known == label)
                .map_or("", |(_, pointer)| pointer.as_str()),
        };
        match object.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => match label {
                "spec.unschedulable" | "spec.hostNetwork" => "false".to_owned(),
                "status.replicas" | "status.successful" => "0".to_owned(),
                _ => String::new(),
            },
            Some(other) => other.to_string(),
        }
    }
}
