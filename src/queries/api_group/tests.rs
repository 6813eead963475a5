//! The documents of the group agree with each other and with its names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

fn document(path: &str) -> Value {
    let documents = documents::all();
    let json = documents.json(path).expect(path);
    serde_json::from_slice(json).unwrap()
}

/// Collects the names of all definitions that are referred to.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str);
            let name = target.map(|t| t.strip_prefix("#/definitions/").unwrap().to_owned());
            found.extend(name);
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn the_resources_have_the_names_of_the_group() {
    let list = document(&group_version().path());
    assert_eq!(list["groupVersion"], group_version().to_string());
    assert_eq!(list["resources"][0]["name"], queries().resource);
    assert_eq!(list["resources"].as_array().unwrap().len(), 1);
}

#[test]
fn openapi_describes_what_is_created() {
    let openapi = document("/openapi/v2");
    let definitions = openapi["definitions"].as_object().unwrap();
    let mut named = BTreeSet::new();
    references(&openapi, &mut named);
    for name in &named {
        assert!(definitions.contains_key(name), "{name} is not defined");
    }
    let defined: BTreeSet<String> = definitions.keys().cloned().collect();
    assert_eq!(defined, named, "each definition is used");

    let path = format!("{}/queries", group_version().path());
    let post = &openapi["paths"][&path]["post"];
    let kind = &post["x-kubernetes-group-version-kind"];
    let query = &definitions["dev.apifront.query.v1alpha1.Query"];
    assert_eq!(query["x-kubernetes-group-version-kind"][0], *kind);
    assert_eq!(
        format!("{}/{}", kind["group"], kind["version"]).replace('"', ""),
        group_version().to_string()
    );
}

#[test]
fn every_field_is_described() {
    let openapi = document("/openapi/v2");
    let definitions = openapi["definitions"].as_object().unwrap();
    let ours = definitions
        .iter()
        .filter(|(name, _)| name.starts_with("dev.apifront."));
    let mut count = 0;
    for (name, definition) in ours {
        for (field, schema) in definition["properties"].as_object().unwrap() {
            let description = schema["description"].as_str();
            assert!(description.is_some_and(|d| !d.is_empty()), "{name}.{field}");
            count += 1;
        }
    }
    assert!(count > 30, "{count} fields");
}
