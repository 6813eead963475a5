//! Lists that are sets or maps hold nothing twice (apiextensions-apiserver
//! `schema/listtype`).

use serde_json::{Map, Value};

use super::{ListType, Schema, go_value::bad, validate::Findings};

impl Schema {
    pub(super) fn check_duplicates(&self, items: &[Value], name: &str, out: &mut Findings) {
        let identity = |item: &Value| match &self.list {
            ListType::Atomic => None,
            ListType::Set => Some(item.clone()),
            ListType::Map(keys) => {
                let own: Map<String, Value> = keys
                    .iter()
                    .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
                    .collect();
                (!own.is_empty()).then_some(Value::Object(own))
            }
        };
        let mut seen: Vec<Value> = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let Some(identity) = identity(item) else {
                continue;
            };
            if seen.contains(&identity) {
                out.push(
                    "FieldValueDuplicate",
                    &format!("{name}[{i}]"),
                    format!("Duplicate value: {}", bad(&identity)),
                );
            } else {
                seen.push(identity);
            }
        }
    }
}
