//! The selection of objects that a request makes.

use std::collections::HashSet;
use std::sync::Arc;

use kubernetes_wire::api::{FieldSelector, LabelMatcher, LabelSelector, Shard};

use super::field_digest::IndexedValue;
use super::fields::Selectable;
use super::{KeyScope, Leaf, Resource, StoredObject};

/// More field requirements than this are grouped by field. A resource has few
/// fields, so the cost per object does not grow with the number of requirements.
const MAX_UNGROUPED_FIELDS: usize = 8;

/// KeyScope and selectors of one LIST or WATCH. The constructor refuses what the
/// cache cannot decide.
#[derive(Clone, Debug)]
pub struct Filter {
    pub scope: KeyScope,
    /// Set when the request can match one name only.
    pub name: Option<String>,
    pub(super) shard: Option<Shard>,
    labels: LabelMatcher,
    pub(super) fields: FieldSelector,
    /// The field that each requirement is about, in the requirements' order. It
    /// is looked up once, not per object.
    pub(super) selected: Vec<Selectable>,
    /// The same requirements grouped by field, if there are many.
    many: Option<Arc<[Field]>>,
    indexed: Option<IndexedValue>,
    pub(super) namespaced: bool,
}

/// The requirements on one field.
#[derive(Debug)]
struct Field {
    of: Selectable,
    /// The values that the field must equal. No object can equal two of them.
    equal: HashSet<String>,
    unequal: HashSet<String>,
}

impl Field {
    fn new(of: Selectable) -> Self {
        Self {
            of,
            equal: HashSet::new(),
            unequal: HashSet::new(),
        }
    }

    fn holds(&self, object: &StoredObject) -> bool {
        let value = value(object, self.of);
        let equals = match self.equal.len() {
            0 => true,
            1 => self.equal.contains(value),
            _ => false,
        };
        equals && !self.unequal.contains(value)
    }
}

fn by_field(fields: &FieldSelector, selected: &[Selectable]) -> Option<Arc<[Field]>> {
    if selected.len() <= MAX_UNGROUPED_FIELDS {
        return None;
    }
    let mut by_field: Vec<Field> = Vec::new();
    for (requirement, of) in fields.requirements.iter().zip(selected) {
        let at = by_field.iter().position(|field| field.of == *of);
        let at = at.unwrap_or_else(|| {
            let at = by_field.len();
            by_field.push(Field::new(*of));
            at
        });
        if let Some(field) = by_field.get_mut(at) {
            let values = if requirement.equal {
                &mut field.equal
            } else {
                &mut field.unequal
            };
            values.insert(requirement.value.clone());
        }
    }
    Some(by_field.into())
}

/// The selector names a field that this cache does not hold.
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
        let selected = fields.requirements.iter();
        let selected = selected.map(|r| selectable(&r.field, resource));
        let selected = selected.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            scope: KeyScope::from_namespace(namespace),
            name: fields.required("metadata.name").map(str::to_owned),
            many: by_field(&fields, &selected),
            indexed: IndexedValue::required(&fields, resource),
            selected,
            shard: None,
            labels: labels.into(),
            fields,
            namespaced: resource.namespaced,
        })
    }

    /// Checks that the cache can select by these fields.
    pub fn check_fields(fields: &FieldSelector, resource: &Resource) -> Result<(), Unsupported> {
        let mut requirements = fields.requirements.iter();
        requirements.try_for_each(|r| selectable(&r.field, resource).map(drop))
    }

    /// Narrows the filter to the objects of a shard.
    pub fn of_shard(self, shard: Option<Shard>) -> Self {
        Self { shard, ..self }
    }

    pub fn matches(&self, object: &StoredObject) -> bool {
        self.scope.contains(&object.key) && self.selects(object)
    }

    /// Tells whether an object of the leaf may match. If not, none does.
    pub(crate) fn may_match_in(&self, leaf: &Leaf) -> bool {
        self.indexed
            .as_ref()
            .is_none_or(|indexed| indexed.may_be_in(leaf))
    }

    #[cfg(test)]
    pub(super) fn is_indexed(&self) -> bool {
        self.indexed.is_some()
    }

    /// Tells whether nothing selects among the objects of the scope.
    pub(crate) fn selects_all(&self) -> bool {
        self.shard.is_none() && self.labels.is_empty() && self.fields.requirements.is_empty()
    }

    /// Tells whether the selectors match the object, whatever its scope.
    pub(crate) fn selects(&self, object: &StoredObject) -> bool {
        self.shard
            .as_ref()
            .is_none_or(|shard| shard.contains(object.shard_hash(shard.key())))
            && self.labels.matches(&object.labels())
            && self.fields_match(object)
    }

    fn fields_match(&self, object: &StoredObject) -> bool {
        if let Some(many) = &self.many {
            return many.iter().all(|field| field.holds(object));
        }
        let mut requirements = self.fields.requirements.iter().zip(&self.selected);
        requirements.all(|(requirement, selectable)| {
            (value(object, *selectable) == requirement.value) == requirement.equal
        })
    }
}

fn selectable(field: &str, resource: &Resource) -> Result<Selectable, Unsupported> {
    let found = resource.fields.lookup(field, resource.namespaced);
    found.ok_or_else(|| Unsupported {
        field: field.to_owned(),
    })
}

fn value(object: &StoredObject, selectable: Selectable) -> &str {
    match selectable {
        Selectable::Name => object.key.name(),
        Selectable::Namespace => object.key.namespace(),
        Selectable::Column(i) => object.fields().get(i).unwrap_or_default(),
        Selectable::Empty => "",
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::tests::pods;

    #[test]
    fn many_requirements_on_fields_select_as_few_do() {
        let resource = pods::resource();
        let pod = br#"{"metadata":{"name":"p","namespace":"a","resourceVersion":"5"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}"#;
        let pod = StoredObject::parse(Bytes::from_static(pod), &resource.fields).unwrap();
        let padding = (0..20).map(|n| format!("metadata.name!=x{n}"));
        let padding = padding.collect::<Vec<_>>().join(",");
        for (text, expected) in [
            ("spec.nodeName=n", true),
            ("spec.nodeName=m", false),
            ("spec.nodeName!=n", false),
            ("spec.nodeName!=m,spec.nodeName!=o", true),
            ("spec.nodeName!=m,spec.nodeName!=n", false),
            ("spec.nodeName=n,spec.nodeName=n", true),
            ("spec.nodeName=n,spec.nodeName=m", false),
            (
                "metadata.name=p,metadata.namespace=a,status.phase=Running",
                true,
            ),
            ("metadata.name=p,metadata.namespace!=a", false),
        ] {
            for text in [text.to_owned(), format!("{text},{padding}")] {
                let fields = FieldSelector::parse(&text).unwrap();
                let filter = Filter::new("", LabelSelector::default(), fields, &resource).unwrap();
                assert_eq!(filter.matches(&pod), expected, "{text}");
            }
        }
    }
}
