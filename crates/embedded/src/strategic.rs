//! Strategic merge patch (apimachinery `util/strategicpatch`) for the lists
//! that the built-in kinds merge by key.
//!
//! The tags of the Go types name the lists that merge, and their keys. Here these
//! are in a table by field name, which is right for every served kind. Other lists
//! are replaced, as without tags.

use serde_json::{Map, Value};

/// The field name of a list and the merge key of its items.
const MERGE_KEYS: &[(&str, &str)] = &[
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("env", "name"),
    ("volumes", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("imagePullSecrets", "name"),
    ("secrets", "name"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
    ("conditions", "type"),
    ("ownerReferences", "uid"),
    ("addresses", "type"),
    ("podIPs", "ip"),
    ("resourceClaims", "name"),
    ("schedulingGates", "name"),
];

/// Lists of plain values that merge as sets.
const SETS: &[&str] = &["finalizers"];

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";
const RETAIN_KEYS: &str = "$retainKeys";

pub(crate) fn merge(target: &mut Value, patch: &Value) {
    merge_at(target, patch, "");
}

fn merge_at(target: &mut Value, patch: &Value, parent: &str) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            *target = Value::Object(without_directives(patch));
            return;
        }
        Some("delete") => {
            *target = Value::Null;
            return;
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(object) = target.as_object_mut() else {
        return;
    };
    if let Some(kept) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        object.retain(|key, _| kept.iter().any(|k| k.as_str() == Some(key)));
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            remove_values(object.get_mut(list), value);
        } else if key.starts_with('$') {
            continue;
        } else if value.is_null() {
            object.remove(key);
        } else if let Value::Array(items) = value {
            let slot = object.entry(key.clone()).or_insert(Value::Null);
            merge_list(slot, items, key, parent);
        } else {
            merge_at(object.entry(key.clone()).or_insert(Value::Null), value, key);
        }
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(ORDER) {
            reorder(object.get_mut(list), value, merge_key(list, parent, value));
        }
    }
}

/// Returns the merge key of a list. Ports merge by containerPort in containers
/// and by port in services.
fn merge_key(field: &str, parent: &str, items: &Value) -> Option<&'static str> {
    if field == "ports" {
        let has = |key: &str| {
            items
                .as_array()
                .is_some_and(|items| items.iter().any(|item| item.get(key).is_some()))
        };
        return if has("containerPort") {
            Some("containerPort")
        } else if parent == "spec" && has("port") {
            Some("port")
        } else {
            None
        };
    }
    MERGE_KEYS
        .iter()
        .find(|(name, _)| *name == field)
        .map(|(_, key)| *key)
}

fn merge_list(slot: &mut Value, items: &[Value], field: &str, parent: &str) {
    let patch = Value::Array(items.to_vec());
    if SETS.contains(&field) {
        let known = slot.as_array().cloned().unwrap_or_default();
        let new = items.iter().filter(|item| !known.contains(item)).cloned();
        *slot = known.iter().cloned().chain(new).collect();
        return;
    }
    let Some(key) = merge_key(field, parent, &patch) else {
        *slot = patch;
        return;
    };
    let replaces = items
        .iter()
        .any(|item| item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace"));
    let mut merged = match slot.take() {
        Value::Array(known) if !replaces => known,
        _ => Vec::new(),
    };
    for item in items {
        let at = merged
            .iter()
            .position(|known| item.get(key).is_some() && known.get(key) == item.get(key));
        match (item.get(DIRECTIVE).and_then(Value::as_str), at) {
            (Some("replace"), _) => {}
            (Some("delete"), Some(at)) => {
                merged.remove(at);
            }
            (Some("delete"), None) => {}
            (_, at) => {
                let mut one = at
                    .and_then(|at| merged.get(at))
                    .cloned()
                    .unwrap_or_default();
                merge_at(&mut one, item, field);
                match at.and_then(|at| merged.get_mut(at)) {
                    Some(slot) => *slot = one,
                    None => merged.push(one),
                }
            }
        }
    }
    *slot = Value::Array(merged);
}

fn remove_values(list: Option<&mut Value>, gone: &Value) {
    if let (Some(Value::Array(list)), Some(gone)) = (list, gone.as_array()) {
        list.retain(|value| !gone.contains(value));
    }
}

/// Orders the items that the directive names. Other items come after them.
fn reorder(list: Option<&mut Value>, order: &Value, key: Option<&str>) {
    let (Some(Value::Array(list)), Some(order)) = (list, order.as_array()) else {
        return;
    };
    let place = |item: &Value| {
        order
            .iter()
            .position(|wanted| match key {
                Some(key) => wanted.get(key).is_some() && wanted.get(key) == item.get(key),
                None => wanted == item,
            })
            .unwrap_or(usize::MAX)
    };
    list.sort_by_key(place);
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(key, _)| !key.starts_with('$'))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_merge_by_key() {
        let mut pod = json!({"spec": {"containers": [
            {"name": "a", "image": "1", "ports": [{"containerPort": 80, "name": "x"}]},
            {"name": "b", "image": "1"},
        ]}, "metadata": {"finalizers": ["f"], "labels": {"a": "1", "b": "2"}}});
        merge(
            &mut pod,
            &json!({"spec": {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [
                    {"name": "a", "image": "2", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                    {"name": "b", "$patch": "delete"},
                    {"name": "c", "image": "3"},
                ]}, "metadata": {"finalizers": ["g"], "labels": {"b": null}}}),
        );
        assert_eq!(
            pod,
            json!({"spec": {"containers": [
                {"name": "c", "image": "3"},
                {"name": "a", "image": "2", "ports": [{"containerPort": 80, "name": "x", "protocol": "TCP"}]},
            ]}, "metadata": {"finalizers": ["f", "g"], "labels": {"a": "1"}}})
        );
    }

    #[test]
    fn directives_replace_and_delete() {
        let mut object = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}, "args": ["a"]}});
        merge(
            &mut object,
            &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}, "args": ["b", "c"]}}),
        );
        assert_eq!(
            object,
            json!({"spec": {"strategy": {"type": "Recreate"}, "args": ["b", "c"]}})
        );
        merge(&mut object, &json!({"spec": {"$patch": "replace", "x": 1}}));
        assert_eq!(object, json!({"spec": {"x": 1}}));
    }
}
