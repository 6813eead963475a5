//! Converts the v2 document of a backend that has no v3, as kube-openapi does
//! (`pkg/openapiconv`). Some details are lost, as in kube-openapi.

use serde_json::{Map, Value, json};

/// Returns the v3 document. `None` if `v2` is no OpenAPI v2 document or is nested
/// too deeply.
pub(super) fn convert(v2: &[u8]) -> Option<Vec<u8>> {
    let v2: Value = serde_json::from_slice(v2).ok()?;
    let paths = v2.get("paths")?.as_object()?;
    let mut components = Map::new();
    if let Some(definitions) = v2.get("definitions").and_then(Value::as_object) {
        components.insert("schemas".to_owned(), mapped(definitions, schema).into());
    }
    if let Some(security) = v2.get("securityDefinitions").and_then(Value::as_object) {
        let schemes = mapped(security, security_scheme).into();
        components.insert("securitySchemes".to_owned(), schemes);
    }
    let produces = texts(&v2, "produces");
    if let Some(responses) = v2.get("responses").and_then(Value::as_object) {
        let responses = mapped(responses, |r| response(r, &produces)).into();
        components.insert("responses".to_owned(), responses);
    }
    // kube-openapi does not convert shared parameters. They are converted here,
    // because references to them would otherwise lead nowhere.
    if let Some(parameters) = v2.get("parameters").and_then(Value::as_object) {
        components.insert(
            "parameters".to_owned(),
            mapped(parameters, parameter).into(),
        );
    }
    let mut v3 = json!({
        "openapi": "3.0.0",
        "info": v2.get("info"),
        "paths": mapped(paths, path_item),
        "components": components,
    });
    copy(&v2, &mut v3, &["externalDocs"]);
    serde_json::to_vec(&v3).ok()
}

fn mapped(map: &Map<String, Value>, convert: impl Fn(&Value) -> Value) -> Map<String, Value> {
    let converted = map
        .iter()
        .map(|(name, value)| (name.clone(), convert(value)));
    converted.collect()
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    let texts = value.get(name).and_then(Value::as_array);
    let texts = texts.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// Copies the named members, and all extensions.
fn copy(from: &Value, to: &mut Value, names: &[&str]) {
    let (Some(from), Some(to)) = (from.as_object(), to.as_object_mut()) else {
        return;
    };
    for (name, value) in from {
        if names.contains(&name.as_str()) || name.starts_with("x-") {
            to.insert(name.clone(), value.clone());
        }
    }
}

fn reference(text: &str, from: &str, to: &str) -> Value {
    text.replacen(from, to, 1).into()
}

fn schema(v2: &Value) -> Value {
    let mut v3 = v2.clone();
    let Some(members) = v3.as_object_mut() else {
        return v3;
    };
    if let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) {
        *properties = mapped(properties, schema);
    }
    for name in ["items", "additionalProperties", "additionalItems"] {
        match members.get_mut(name) {
            Some(Value::Array(items)) => {
                items.iter_mut().for_each(|item| *item = schema(item));
            }
            Some(value) => *value = schema(value),
            None => {}
        }
    }
    if let Some(target) = members.get("$ref").and_then(Value::as_str) {
        let target = reference(target, "#/definitions/", "#/components/schemas/");
        if members.len() == 1 {
            members.insert("$ref".to_owned(), target);
        } else {
            // In v3 a reference may have no siblings.
            members.remove("$ref");
            members.insert("allOf".to_owned(), json!([{ "$ref": target }]));
        }
    }
    v3
}

fn security_scheme(v2: &Value) -> Value {
    let mut v3 = json!({});
    copy(v2, &mut v3, &["type", "description", "name", "in"]);
    if let Some(flow) = v2.get("flow").and_then(Value::as_str) {
        let mut urls = json!({});
        copy(v2, &mut urls, &["authorizationUrl", "tokenUrl", "scopes"]);
        copy(&json!({ "flows": { flow: urls } }), &mut v3, &["flows"]);
    }
    v3
}

fn path_item(v2: &Value) -> Value {
    const OPERATIONS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
    let mut v3 = json!({});
    copy(v2, &mut v3, &["$ref"]);
    let found = OPERATIONS
        .iter()
        .filter_map(|name| Some((*name, v2.get(*name)?)));
    for (name, value) in found {
        copy(&json!({ name: operation(value) }), &mut v3, &[name]);
    }
    if let Some(parameters) = v2.get("parameters").and_then(Value::as_array) {
        let parameters: Vec<Value> = parameters.iter().map(parameter).collect();
        copy(
            &json!({ "parameters": parameters }),
            &mut v3,
            &["parameters"],
        );
    }
    v3
}

fn operation(v2: &Value) -> Value {
    let mut v3 = json!({});
    let kept = [
        "description",
        "externalDocs",
        "tags",
        "summary",
        "deprecated",
        "operationId",
    ];
    copy(v2, &mut v3, &kept);
    let all = v2.get("parameters").and_then(Value::as_array);
    let is_body = |p: &&Value| p.get("name") == Some(&json!("body")) && p.get("schema").is_some();
    let (bodies, others): (Vec<&Value>, Vec<&Value>) = all.into_iter().flatten().partition(is_body);
    if let Some(body) = bodies.last().and_then(|body| body.get("schema")) {
        let content = content(body, &texts(v2, "consumes"));
        let body = json!({ "requestBody": { "content": content } });
        copy(&body, &mut v3, &["requestBody"]);
    }
    if !others.is_empty() {
        let others: Vec<Value> = others.into_iter().map(parameter).collect();
        copy(&json!({ "parameters": others }), &mut v3, &["parameters"]);
    }
    let produces = texts(v2, "produces");
    if let Some(responses) = v2.get("responses").and_then(Value::as_object) {
        let mut converted = Map::new();
        for (code, value) in responses {
            let value = match code.starts_with("x-") {
                true => value.clone(),
                false => response(value, &produces),
            };
            converted.insert(code.clone(), value);
        }
        copy(&json!({ "responses": converted }), &mut v3, &["responses"]);
    }
    v3
}

/// Returns a content with the same schema for each media type.
fn content(v2: &Value, media_types: &[String]) -> Value {
    let schema = schema(v2);
    let types = media_types.iter();
    let types = types.map(|media| (media.clone(), json!({ "schema": schema })));
    Value::Object(types.collect())
}

fn response(v2: &Value, produces: &[String]) -> Value {
    if let Some(target) = v2.get("$ref").and_then(Value::as_str) {
        return json!({ "$ref": reference(target, "#/responses/", "#/components/responses/") });
    }
    let mut v3 = json!({});
    copy(v2, &mut v3, &["description"]);
    if let Some(schema) = v2.get("schema") {
        copy(
            &json!({ "content": content(schema, produces) }),
            &mut v3,
            &["content"],
        );
    }
    v3
}

fn parameter(v2: &Value) -> Value {
    if let Some(target) = v2.get("$ref").and_then(Value::as_str) {
        return json!({ "$ref": reference(target, "#/parameters/", "#/components/parameters/") });
    }
    let mut v3 = json!({});
    copy(
        v2,
        &mut v3,
        &["name", "description", "in", "required", "allowEmptyValue"],
    );
    let schema = match v2.get("schema") {
        Some(own) => schema(own),
        None => {
            let mut simple = json!({});
            copy(v2, &mut simple, &["type", "format", "uniqueItems"]);
            if let Some(simple) = simple.as_object_mut() {
                simple.retain(|name, _| !name.starts_with("x-"));
            }
            simple
        }
    };
    copy(&json!({ "schema": schema }), &mut v3, &["schema"]);
    v3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_references() {
        let v2 = r##"{
            "swagger": "2.0",
            "info": {"title": "t", "version": "1"},
            "paths": {"/apis/g/v1/a": {"post": {
                "operationId": "createA",
                "consumes": ["*/*"],
                "produces": ["application/json"],
                "parameters": [
                    {"name": "body", "in": "body", "schema": {"$ref": "#/definitions/A"}},
                    {"$ref": "#/parameters/p"},
                    {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": true}
                ],
                "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/A"}}},
                "x-kubernetes-action": "post"
            }}},
            "definitions": {"A": {"type": "object", "properties": {
                "b": {"description": "d", "$ref": "#/definitions/B"},
                "c": {"type": "array", "items": {"$ref": "#/definitions/B"}}
            }}},
            "parameters": {"p": {"name": "pretty", "in": "query", "type": "string"}}
        }"##;
        let v3: Value = serde_json::from_slice(&convert(v2.as_bytes()).unwrap()).unwrap();
        let expected = json!({
            "openapi": "3.0.0",
            "info": {"title": "t", "version": "1"},
            "paths": {"/apis/g/v1/a": {"post": {
                "operationId": "createA",
                "requestBody": {"content": {
                    "*/*": {"schema": {"$ref": "#/components/schemas/A"}},
                }},
                "parameters": [
                    {"$ref": "#/components/parameters/p"},
                    {"name": "dryRun", "in": "query",
                     "schema": {"type": "string", "uniqueItems": true}},
                ],
                "responses": {"200": {"description": "OK", "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/A"}},
                }}},
                "x-kubernetes-action": "post",
            }}},
            "components": {
                "schemas": {"A": {"type": "object", "properties": {
                    "b": {"description": "d", "allOf": [{"$ref": "#/components/schemas/B"}]},
                    "c": {"type": "array", "items": {"$ref": "#/components/schemas/B"}},
                }}},
                "parameters": {"p": {"name": "pretty", "in": "query",
                                     "schema": {"type": "string"}}},
            },
        });
        assert_eq!(v3, expected);
        assert!(convert(b"<html>").is_none());
        assert!(convert(b"{}").is_none());
    }
}
