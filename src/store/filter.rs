//! Which objects a request selects.

use super::fields::Selectable;
use super::{Resource, Scope, StoredObject};
use crate::api::{FieldSelector, LabelSelector, ShardKey, ShardSelector};

/// Scope and selectors of one LIST or WATCH, checked against what the cache
/// can decide.
#[derive(Clone, Debug)]
pub struct Filter {
    pub scope: Scope,
    /// Set when the request can match one name only.
    pub name: Option<String>,
    shard: Option<ShardSelector>,
    labels: LabelSelector,
    pub(super) fields: FieldSelector,
    /// What each of the requirements on fields is about, in their order:
    /// looked up once, not per object.
    pub(super) selected: Vec<Selectable>,
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
        let lookup = |label: &str| {
            resource
                .fields
                .lookup(label, resource.namespaced)
                .ok_or_else(|| Unsupported {
                    field: label.to_owned(),
                })
        };
        let selected = fields.requirements.iter().map(|r| lookup(&r.field));
        Ok(Self {
            scope: Scope::from_namespace(namespace),
            name: fields.required("metadata.name").map(str::to_owned),
            selected: selected.collect::<Result<_, _>>()?,
            shard: None,
            labels,
            fields,
            namespaced: resource.namespaced,
        })
    }

    /// Selects of these objects those of a shard.
    pub fn of_shard(self, shard: Option<ShardSelector>) -> Self {
        Self { shard, ..self }
    }

    pub fn matches(&self, object: &StoredObject) -> bool {
        self.scope.contains(&object.key)
            && self
                .shard
                .as_ref()
                .is_none_or(|shard| shard.matches(hashed(object, shard.key())))
            && self.labels.matches(&object.labels)
            && self.fields.requirements.iter().zip(&self.selected).all(
                |(requirement, selectable)| {
                    (value(object, *selectable) == requirement.value) == requirement.equal
                },
            )
    }
}

fn hashed(object: &StoredObject, key: ShardKey) -> &str {
    match key {
        ShardKey::Uid => &object.uid,
        ShardKey::Namespace => object.key.namespace(),
    }
}

fn value(object: &StoredObject, selectable: Selectable) -> &str {
    match selectable {
        Selectable::Name => object.key.name(),
        Selectable::Namespace => object.key.namespace(),
        Selectable::Column(i) => object.fields.get(i).map_or("", |value| value),
        Selectable::Empty => "",
    }
}
