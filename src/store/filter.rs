//! Which objects a request selects.

use super::{FieldTable, Resource, Scope, StoredObject};
use crate::api::{FieldSelector, LabelSelector};

/// Scope and selectors of one LIST or WATCH, checked against what the cache
/// can decide.
#[derive(Clone, Debug)]
pub struct Filter {
    pub scope: Scope,
    /// Set when the request can match one name only.
    pub name: Option<String>,
    labels: LabelSelector,
    pub(super) fields: FieldSelector,
    pub(super) table: FieldTable,
    pub(super) namespaced: bool,
}

/// The selector names a field this cache does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    pub field: String,
}

impl Filter {
    pub fn new(
        namespace: &str,
        labels: LabelSelector,
        fields: FieldSelector,
        resource: &Resource,
    ) -> Result<Self, Unsupported> {
        let table = resource.fields;
        for requirement in &fields.requirements {
            let label = requirement.field.as_str();
            let known = match label {
                "metadata.name" => true,
                // Some cluster-scoped kinds know it, some do not.
                "metadata.namespace" => resource.namespaced,
                _ => table.index(label).is_some(),
            };
            if !known {
                return Err(Unsupported {
                    field: label.to_owned(),
                });
            }
        }
        Ok(Self {
            scope: Scope::from_namespace(namespace),
            name: fields.required("metadata.name").map(str::to_owned),
            labels,
            fields,
            table,
            namespaced: resource.namespaced,
        })
    }

    pub fn matches(&self, object: &StoredObject) -> bool {
        self.scope.contains(&object.key)
            && self.labels.matches(&object.labels)
            && self.fields.matches(|field| match field {
                "metadata.name" => object.key.name(),
                "metadata.namespace" => object.key.namespace(),
                label => self
                    .table
                    .index(label)
                    .and_then(|i| object.fields.get(i))
                    .map_or("", |value| value),
            })
    }
}
