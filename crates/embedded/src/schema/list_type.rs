//! Lists that are sets or maps: identifies their items and finds duplicates
//! (apiextensions-apiserver `schema/listtype`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{ListType, Schema, findings::Findings, go_value::bad};

impl Schema {
    /// Returns the JSON that identifies an item: no two items of the list may have
    /// the same. `None` if items of the list may be equal.
    pub(super) fn identity(&self, item: &Value) -> Option<String> {
        match &self.list {
            ListType::Atomic => None,
            ListType::Set => Some(bad(item)),
            ListType::Map(keys) => {
                let own: Map<String, Value> = keys
                    .iter()
                    .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
                    .collect();
                (!own.is_empty()).then(|| Value::Object(own).to_string())
            }
        }
    }

    /// Returns the old items of a map by their identity. A new item with the same
    /// keys replaces the old one.
    pub(super) fn counterparts<'a>(&self, old: Option<&'a Value>) -> BTreeMap<String, &'a Value> {
        let items = old.and_then(Value::as_array).into_iter().flatten();
        match &self.list {
            ListType::Map(_) => items
                .filter_map(|item| Some((self.identity(item)?, item)))
                .collect(),
            _ => BTreeMap::new(),
        }
    }

    pub(super) fn check_duplicates(&self, items: &[Value], name: &str, out: &mut Findings) {
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            let Some(identity) = self.identity(item) else {
                continue;
            };
            if seen.contains(&identity) {
                out.push(
                    "FieldValueDuplicate",
                    &format!("{name}[{i}]"),
                    format!("Duplicate value: {identity}"),
                );
            } else {
                seen.insert(identity);
            }
        }
    }
}
