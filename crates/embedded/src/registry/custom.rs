//! CustomResourceDefinitions: their checks, and the resources they define.

use std::{cmp::Ordering, sync::Arc};

use kubernetes_wire::api::{
    GroupResource, GroupVersionResource, Status, query::go_quote, status::Cause, version_order,
};
use kubernetes_wire::representation::{Printer, table::CustomColumn};
use serde_json::{Value, json};

use super::resource::{Custom, Fields, Resource, Scale, Subresource, Verbs};
use crate::schema::Schema;

/// Defaults a new definition, checks what serving it needs, and gives it the status
/// that real controllers would set within milliseconds.
pub(crate) fn accept(definition: &mut Value, now: &str) -> Result<(), Status> {
    let name = text_at(definition, "/metadata/name");
    let storage = check(definition).map_err(|causes| invalid(&name, causes))?;
    let Some(accepted) = default_names(definition) else {
        return Err(invalid(&name, Vec::new()));
    };
    if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("conversion")
            .or_insert_with(|| json!({"strategy": "None"}));
    }
    let status = status(definition, &accepted, storage, now);
    if let Some(object) = definition.as_object_mut() {
        object.insert("status".into(), status);
    }
    Ok(())
}

fn text_at(definition: &Value, pointer: &str) -> String {
    let text = definition.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Returns the name of the stored version, or all errors.
fn check(definition: &Value) -> Result<String, Vec<Cause>> {
    let group = text_at(definition, "/spec/group");
    let plural = text_at(definition, "/spec/names/plural");
    let kind = text_at(definition, "/spec/names/kind");
    let mut causes = Vec::new();
    for (value, field) in [
        (&group, "spec.group"),
        (&plural, "spec.names.plural"),
        (&kind, "spec.names.kind"),
    ] {
        if value.is_empty() {
            causes.push(Cause::new("FieldValueRequired", field, "Required value"));
        }
    }
    if !causes.is_empty() {
        return Err(causes);
    }
    let name = text_at(definition, "/metadata/name");
    if name != format!("{plural}.{group}") {
        let message = format!(
            "Invalid value: {}: must be spec.names.plural+\".\"+spec.group",
            go_quote(&name)
        );
        causes.push(Cause::new("FieldValueInvalid", "metadata.name", message));
    }
    causes.extend(check_scope(&text_at(definition, "/spec/scope")));
    let mut stored = versions(definition)
        .filter(|v| v.get("storage") == Some(&Value::Bool(true)))
        .map(version_name);
    match (stored.next(), stored.next()) {
        (Some(storage), None) if causes.is_empty() => return Ok(storage),
        (Some(_), None) => {}
        _ => causes.push(Cause::new(
            "FieldValueInvalid",
            "spec.versions",
            "Invalid value: must have exactly one version marked as storage version",
        )),
    }
    Err(causes)
}

fn check_scope(scope: &str) -> Option<Cause> {
    match scope {
        "Namespaced" | "Cluster" => None,
        "" => Some(Cause::new(
            "FieldValueRequired",
            "spec.scope",
            "Required value",
        )),
        other => {
            let message = format!(
                "Unsupported value: {}: supported values: \"Cluster\", \"Namespaced\"",
                go_quote(other)
            );
            Some(Cause::new("FieldValueNotSupported", "spec.scope", message))
        }
    }
}

/// Fills in the names that may be omitted, and returns all names.
fn default_names(definition: &mut Value) -> Option<Value> {
    let kind = text_at(definition, "/spec/names/kind");
    let names = definition
        .pointer_mut("/spec/names")
        .and_then(Value::as_object_mut)?;
    names
        .entry("singular")
        .or_insert_with(|| kind.to_lowercase().into());
    names
        .entry("listKind")
        .or_insert_with(|| format!("{kind}List").into());
    Some(Value::Object(names.clone()))
}

/// Returns the status of a definition whose names are accepted. `storage` is
/// added to the versions that were ever stored.
fn status(definition: &Value, accepted: &Value, storage: String, now: &str) -> Value {
    let since = |kind: &str| {
        definition
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
            .and_then(|c| c.get("lastTransitionTime")?.as_str())
            .unwrap_or(now)
            .to_owned()
    };
    let conditions = json!([
        condition(
            "NamesAccepted",
            "NoConflicts",
            "no conflicts found",
            &since("NamesAccepted")
        ),
        condition(
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
            &since("Established"),
        ),
    ]);
    let mut versions = definition
        .pointer("/status/storedVersions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if !versions.iter().any(|v| v.as_str() == Some(&storage)) {
        versions.push(storage.into());
    }
    json!({
        "conditions": conditions,
        "acceptedNames": accepted,
        "storedVersions": versions,
    })
}

fn condition(kind: &str, reason: &str, message: &str, since: &str) -> Value {
    json!({
        "type": kind,
        "status": "True",
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    })
}

fn invalid(name: &str, causes: Vec<Cause>) -> Status {
    let kind = GroupResource {
        group: "apiextensions.k8s.io".to_owned(),
        resource: "CustomResourceDefinition".to_owned(),
    };
    Status::invalid(&kind, name, causes)
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn version_name(version: &Value) -> String {
    version
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

pub(super) fn resources(definition: &Value) -> Vec<Resource> {
    let text = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let list = |pointer: &str| -> Vec<String> {
        definition
            .pointer(pointer)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect()
    };
    let group = text("/spec/group");
    let storage_version = versions(definition)
        .find(|v| v.get("storage") == Some(&Value::Bool(true)))
        .map(version_name)
        .unwrap_or_default();
    versions(definition)
        .filter(|v| v.get("served") == Some(&Value::Bool(true)))
        .map(|version| Resource {
            gvr: GroupVersionResource::new(
                &group,
                &version_name(version),
                &text("/spec/names/plural"),
            ),
            kind: text("/spec/names/kind"),
            list_kind: text("/spec/names/listKind"),
            singular: text("/spec/names/singular"),
            namespaced: text("/spec/scope") == "Namespaced",
            verbs: Verbs::All,
            short_names: list("/spec/names/shortNames"),
            categories: list("/spec/names/categories"),
            storage_version_hash: storage_hash(&group, &storage_version, &text("/spec/names/kind")),
            subresources: subresources(version),
            fields: Fields {
                extra: version
                    .get("selectableFields")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(|field| field.get("jsonPath")?.as_str())
                    .map(|path| {
                        let label = path.trim_start_matches('.');
                        (label.to_owned(), pointer(path))
                    })
                    .collect(),
                own_error: false,
            },
            generation: true,
            create_on_update: false,
            unconditional_update: false,
            returns_deleted: false,
            warning: warning(definition, version, &group, &text("/spec/names/kind")),
            scale: version.pointer("/subresources/scale").map(|scale| {
                let path = |key: &str| scale.get(key).and_then(Value::as_str).map(pointer);
                Scale {
                    spec_replicas: path("specReplicasPath").unwrap_or_default(),
                    status_replicas: path("statusReplicasPath").unwrap_or_default(),
                    selector: path("labelSelectorPath"),
                }
            }),
            custom: Some(Custom {
                storage_version: storage_version.clone(),
                printer: printer(version),
                schema: version
                    .pointer("/schema/openAPIV3Schema")
                    .map(|schema| Arc::new(Schema::parse(schema))),
                open_api: version
                    .pointer("/schema/openAPIV3Schema")
                    .map(|schema| Arc::new(schema.clone())),
            }),
        })
        .collect()
}

fn printer(version: &Value) -> Option<Printer> {
    let columns: Vec<CustomColumn> = match version.get("additionalPrinterColumns") {
        Some(columns) => serde_json::from_value(columns.clone()).ok()?,
        None => Vec::new(),
    };
    Printer::from_crd_columns(&columns)
}

fn subresources(version: &Value) -> Vec<Subresource> {
    let mut out = Vec::new();
    for (key, subresource) in [
        ("status", Subresource::Status),
        ("scale", Subresource::Scale),
    ] {
        if version
            .get("subresources")
            .is_some_and(|s| s.get(key).is_some())
        {
            out.push(subresource);
        }
    }
    out
}

/// Turns a path such as `.spec.replicas` into a JSON pointer. These paths
/// consist of plain field names.
fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

/// Returns discovery.StorageVersionHash: the first 8 bytes of SHA-256 in
/// base64.
fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    use base64::Engine;
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    let head: Vec<u8> = digest.iter().copied().take(8).collect();
    base64::engine::general_purpose::STANDARD.encode(head)
}

fn warning(definition: &Value, version: &Value, group: &str, kind: &str) -> Option<String> {
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        return None;
    }
    if let Some(text) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(text.to_owned());
    }
    let name = version_name(version);
    let mut best: Vec<String> = versions(definition)
        .filter(|v| v.get("served") == Some(&Value::Bool(true)))
        .filter(|v| v.get("deprecated") != Some(&Value::Bool(true)))
        .map(version_name)
        .filter(|other| version_order::compare(other, &name) == Ordering::Less)
        .collect();
    best.sort_by(|a, b| version_order::compare(a, b));
    let instead = best
        .first()
        .map(|best| format!("; use {group}/{best} {kind}"))
        .unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_make_resources() {
        let mut definition = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "names": {"kind": "Widget", "plural": "widgets"},
                "scope": "Namespaced",
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
                    {"name": "v1alpha1", "served": true, "storage": false, "deprecated": true},
                    {"name": "v0", "served": false, "storage": false},
                ],
            },
        });
        accept(&mut definition, "2026-01-01T00:00:00Z").unwrap();
        let made = resources(&definition);
        assert_eq!(made.len(), 2);
        assert_eq!(made[0].list_kind, "WidgetList");
        assert_eq!(made[0].subresources, [Subresource::Status]);
        // A real server has this hash.
        assert_eq!(made[0].storage_version_hash, "gIwvi5rymmg=");
        assert_eq!(
            made[1].warning.as_deref(),
            Some("example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget")
        );
        definition["metadata"]["name"] = "wrong".into();
        assert_eq!(
            accept(&mut definition, "").unwrap_err().message,
            "CustomResourceDefinition.apiextensions.k8s.io \"wrong\" is invalid: metadata.name: \
             Invalid value: \"wrong\": must be spec.names.plural+\".\"+spec.group"
        );
    }
}
