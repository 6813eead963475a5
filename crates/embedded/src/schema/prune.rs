//! Drops fields that the schema does not know (apiextensions-apiserver
//! `schema/pruning`), and returns their paths for fieldValidation.

use kubernetes_wire::representation::partial_object_metadata::OBJECT_META;
use serde_json::{Map, Value};

use super::{Additional, Schema};

impl Schema {
    /// Drops unknown fields. Returns their paths, sorted.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.prune_at(object, "", true, &mut unknown);
        unknown.sort();
        unknown
    }

    fn prune_at(&self, value: &mut Value, path: &str, resource: bool, unknown: &mut Vec<String>) {
        match value {
            Value::Object(map) => self.prune_map(map, path, resource, unknown),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for (i, item) in items.iter_mut().enumerate() {
                        schema.prune_at(item, &format!("{path}[{i}]"), false, unknown);
                    }
                }
            }
            _ => {}
        }
    }

    fn prune_map(
        &self,
        map: &mut Map<String, Value>,
        path: &str,
        resource: bool,
        unknown: &mut Vec<String>,
    ) {
        let resource = resource || self.embedded_resource;
        map.retain(|key, value| {
            let path = join(path, key);
            if resource && key == "metadata" {
                prune_metadata(value, &path, unknown);
                return true;
            }
            if resource && matches!(key.as_str(), "apiVersion" | "kind") {
                return true;
            }
            if let Some(schema) = self.property(key) {
                schema.prune_at(value, &path, false, unknown);
                return true;
            }
            let kept = self.preserves_unknown || matches!(self.additional, Additional::Any);
            if !kept {
                unknown.push(path);
            }
            kept
        });
    }
}

fn prune_metadata(value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| {
            let known = OBJECT_META.contains(&key.as_str());
            if !known {
                unknown.push(join(path, key));
            }
            known
        });
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_go_and_are_told() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "known": {"type": "string"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"strict": {"type": "object"}}},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            }},
        }}));
        let mut object = json!({
            "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "bogus": 1}, "top": 1,
            "spec": {"known": "x", "unknown": 1, "list": [{"a": 1}, {"b": 1}], "map": {"any": 1},
                "free": {"x": {"y": 1}, "strict": {"z": 1}}},
        });
        let unknown = schema.prune(&mut object);
        assert_eq!(
            unknown,
            [
                "metadata.bogus",
                "spec.free.strict.z",
                "spec.list[1].b",
                "spec.unknown",
                "top"
            ]
        );
        assert_eq!(
            object,
            json!({
                "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"},
                "spec": {"known": "x", "list": [{"a": 1}, {}], "map": {"any": 1},
                    "free": {"x": {"y": 1}, "strict": {}}},
            })
        );
        assert!(schema.prune(&mut object).is_empty());
    }
}
