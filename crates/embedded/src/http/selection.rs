//! The objects that a list, a watch or a deletion of many objects selects.

use kubernetes_wire::api::ListOptions;

use super::call::Call;
use crate::{registry::Resource, storage::Stored};

#[derive(Clone)]
pub(super) struct Selection {
    /// `namespace/`, or empty for all namespaces.
    pub prefix: String,
    /// The only key that can be selected, if there is just one.
    pub key: Option<String>,
    pub options: ListOptions,
}

impl Selection {
    pub(super) fn from_call(call: &Call<'_>, options: ListOptions) -> Self {
        let fields = &options.field_selector;
        let mut namespace = call.target.namespace.clone();
        if namespace.is_empty()
            && call.resource.namespaced
            && let Some(required) = fields.required("metadata.namespace")
        {
            namespace = required.to_owned();
        }
        let name = if call.target.name.is_empty() {
            fields.required("metadata.name").map(str::to_owned)
        } else {
            Some(call.target.name.clone())
        };
        let known = !call.resource.namespaced || !namespace.is_empty();
        Self {
            key: name
                .filter(|_| known)
                .map(|name| call.resource.key(&namespace, &name)),
            prefix: if namespace.is_empty() {
                String::new()
            } else {
                format!("{namespace}/")
            },
            options,
        }
    }

    pub(super) fn has_key(&self, key: &str) -> bool {
        match &self.key {
            Some(only) => only == key,
            None => key.starts_with(&self.prefix),
        }
    }

    pub(super) fn matches(&self, resource: &Resource, object: &Stored) -> bool {
        self.options.label_selector.matches(&object.labels)
            && resource.matches_fields(&self.options.field_selector, &object.value)
    }

    pub(super) fn selects_all(&self) -> bool {
        self.options.label_selector.is_empty() && self.options.field_selector.is_empty()
    }
}
