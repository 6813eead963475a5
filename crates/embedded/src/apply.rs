//! Server-side apply (KEP-555) in a simple form. The applied object is merged
//! into the live one. Fields of maps that the manager applied before, and does
//! not apply any more, are removed. managedFields records the applied fields.
//! Lists are merged as by a strategic merge patch, and each list has one owner
//! as a whole.

use kubernetes_wire::api::{
    Reason, Status,
    query::go_quote,
    status::{Cause, Details},
};
use serde_json::{Map, Value, json};

use super::{meta, strategic};

/// The fields of other managers that the applied object would change.
pub(crate) struct Conflicts {
    fields: Vec<(String, String)>,
}

impl Conflicts {
    pub(crate) fn status(&self) -> Status {
        let count = self.fields.len();
        let noun = if count == 1 { "conflict" } else { "conflicts" };
        let first = self.fields.first().map(|(manager, _)| manager.as_str());
        let summary = match self.fields.as_slice() {
            [(manager, field)] => format!("{noun} with {}: {field}", go_quote(manager)),
            many => {
                let list: Vec<String> =
                    many.iter().map(|(_, field)| format!("- {field}")).collect();
                format!(
                    "{noun} with {}:\n{}",
                    go_quote(first.unwrap_or_default()),
                    list.join("\n")
                )
            }
        };
        Status::failure(
            409,
            Reason::Conflict,
            format!("Apply failed with {count} {noun}: {summary}"),
        )
        .with_details(Details {
            causes: self
                .fields
                .iter()
                .map(|(manager, field)| {
                    let message = format!("conflict with {}", go_quote(manager));
                    Cause::new("FieldManagerConflict", field, message)
                })
                .collect(),
            ..Details::default()
        })
    }
}

pub(crate) fn apply(
    live: &Value,
    object: &Value,
    manager: &str,
    force: bool,
    api_version: &str,
    subresource: &str,
) -> Result<Value, Conflicts> {
    let mut applied = object.clone();
    meta::metadata_mut(&mut applied).remove("managedFields");
    let fields = fields_of(&applied);
    let mut entries = managed(live);
    if !force {
        let conflicts = conflicts(live, &applied, &fields, &entries, manager);
        if !conflicts.is_empty() {
            return Err(Conflicts { fields: conflicts });
        }
    }
    let mut new = live.clone();
    if let Some(before) = entries
        .iter()
        .find(|entry| is_own(entry, manager, subresource))
    {
        let others: Vec<&Value> = entries
            .iter()
            .filter(|entry| !is_own(entry, manager, subresource))
            .filter_map(|entry| entry.get("fieldsV1"))
            .collect();
        if let Some(before) = before.get("fieldsV1") {
            remove_given_up(&mut new, before, &fields, &others);
        }
    }
    strategic::merge(&mut new, &applied);
    for entry in &mut entries {
        if !is_own(entry, manager, subresource)
            && let Some(theirs) = entry.get_mut("fieldsV1")
        {
            subtract(theirs, &changed(live, &new, &fields));
        }
    }
    put_entries(&mut new, entries);
    record(&mut new, Some(fields), manager, api_version, subresource);
    Ok(new)
}

/// Writes the manager's entry. Without `fields`, it has the object's own fields.
pub(crate) fn record(
    object: &mut Value,
    fields: Option<Value>,
    manager: &str,
    api_version: &str,
    subresource: &str,
) {
    let fields = fields.unwrap_or_else(|| fields_of(object));
    let mut entries = managed(object);
    entries.retain(|entry| !is_own(entry, manager, subresource));
    let mut entry = json!({
        "manager": manager,
        "operation": "Apply",
        "apiVersion": api_version,
        "time": meta::now(),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    });
    if !subresource.is_empty()
        && let Some(map) = entry.as_object_mut()
    {
        map.insert("subresource".into(), subresource.into());
    }
    entries.insert(0, entry);
    put_entries(object, entries);
}

fn managed(object: &Value) -> Vec<Value> {
    object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

fn put_entries(object: &mut Value, entries: Vec<Value>) {
    meta::metadata_mut(object).insert("managedFields".into(), entries.into());
}

fn is_own(entry: &Value, manager: &str, subresource: &str) -> bool {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    text("manager") == manager && text("operation") == "Apply" && text("subresource") == subresource
}

/// Returns the set of fields in FieldsV1 form. Nobody owns the fields that
/// identify the object.
fn fields_of(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    let metadata = meta::metadata_mut(&mut object);
    for key in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
    ] {
        metadata.remove(key);
    }
    if metadata.is_empty()
        && let Some(map) = object.as_object_mut()
    {
        map.remove("metadata");
    }
    tree(&object)
}

fn tree(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (format!("f:{key}"), tree(value)))
            .collect::<Map<_, _>>()
            .into(),
        _ => json!({}),
    }
}

/// Returns the paths of the leaves of `fields`, as lists of keys.
fn leaves(fields: &Value) -> Vec<Vec<String>> {
    let Some(map) = fields.as_object().filter(|map| !map.is_empty()) else {
        return vec![Vec::new()];
    };
    map.iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("f:")?, value)))
        .flat_map(|(key, value)| {
            leaves(value).into_iter().map(move |mut path| {
                path.insert(0, key.to_owned());
                path
            })
        })
        .collect()
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

fn owns(fields: &Value, path: &[String]) -> bool {
    path.iter()
        .try_fold(fields, |fields, key| fields.get(format!("f:{key}")))
        .is_some()
}

fn conflicts(
    live: &Value,
    applied: &Value,
    fields: &Value,
    entries: &[Value],
    manager: &str,
) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for path in leaves(fields) {
        let (Some(old), Some(new)) = (at(live, &path), at(applied, &path)) else {
            continue;
        };
        if old == new || !(old.is_string() || old.is_number() || old.is_boolean()) {
            continue;
        }
        let owner = entries.iter().find(|entry| {
            entry.get("manager").and_then(Value::as_str) != Some(manager)
                && entry
                    .get("fieldsV1")
                    .is_some_and(|fields| owns(fields, &path))
        });
        if let Some(owner) = owner.and_then(|entry| entry.get("manager")?.as_str()) {
            out.push((owner.to_owned(), format!(".{}", path.join("."))));
        }
    }
    out
}

/// Returns the paths in `fields` whose value the apply changed.
fn changed(live: &Value, new: &Value, fields: &Value) -> Vec<Vec<String>> {
    leaves(fields)
        .into_iter()
        .filter(|path| at(live, path) != at(new, path))
        .collect()
}

fn subtract(fields: &mut Value, paths: &[Vec<String>]) {
    for path in paths {
        if let Some((last, parents)) = path.split_last() {
            let parent = parents.iter().try_fold(&mut *fields, |fields, key| {
                fields.get_mut(format!("f:{key}"))
            });
            if let Some(map) = parent.and_then(Value::as_object_mut) {
                map.remove(&format!("f:{last}"));
            }
        }
    }
}

fn remove_given_up(object: &mut Value, before: &Value, now: &Value, others: &[&Value]) {
    for path in leaves(before) {
        if path.is_empty() || owns(now, &path) || others.iter().any(|fields| owns(fields, &path)) {
            continue;
        }
        if let Some((last, parents)) = path.split_last() {
            let parent = parents
                .iter()
                .try_fold(&mut *object, |value, key| value.get_mut(key));
            if let Some(map) = parent.and_then(Value::as_object_mut) {
                map.remove(last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_own_what_they_apply() {
        let live = json!({"metadata": {"name": "a"}, "data": {"x": "0"}});
        let apply_as = |live: &Value, manager: &str, data: Value, force| {
            let object = json!({"metadata": {"name": "a"}, "data": data});
            apply(live, &object, manager, force, "v1", "")
        };
        let one = apply_as(&live, "one", json!({"a": "1", "b": "1"}), false)
            .ok()
            .unwrap();
        assert_eq!(one["data"], json!({"a": "1", "b": "1", "x": "0"}));
        let entry = &one["metadata"]["managedFields"][0];
        assert_eq!(entry["fieldsV1"], json!({"f:data": {"f:a": {}, "f:b": {}}}));

        let refused = apply_as(&one, "two", json!({"a": "2"}), false)
            .err()
            .unwrap();
        assert_eq!(
            refused.status().message,
            "Apply failed with 1 conflict: conflict with \"one\": .data.a"
        );
        let forced = apply_as(&one, "two", json!({"a": "2"}), true).ok().unwrap();
        assert_eq!(forced["data"]["a"], "2");

        // Fields that are no longer applied are removed.
        let less = apply_as(&one, "one", json!({"a": "1"}), false)
            .ok()
            .unwrap();
        assert_eq!(less["data"], json!({"a": "1", "x": "0"}));
    }
}
