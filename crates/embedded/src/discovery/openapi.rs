//! OpenAPI, as far as clients need it. Every kind is an object of unknown fields;
//! in version 3, a custom resource has the schema of its definition. PATCH has the
//! parameters whose support kubectl checks (dryRun, fieldValidation).

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use kubernetes_wire::{
    api::{GroupVersion, Status, go_json},
    negotiation::parse_accept,
};
use serde_json::{Map, Value, json};

use super::hash::hash;
use crate::{
    http::reply::{Body, empty, json as document, with_type},
    registry::{Resource, Served, Verbs},
};

/// Returns a version's key: `api/v1`, `apis/apps/v1`.
fn key(version: &GroupVersion) -> String {
    version.path().trim_start_matches('/').to_owned()
}

pub(crate) fn index(served: &Served) -> Result<Response<Body>, Status> {
    let paths: Map<String, Value> = served
        .versions()
        .into_iter()
        .map(|version| {
            let key = key(&version);
            let hash = hash(&go_json::to_vec(&describe(served, &version)));
            let url = format!("/openapi/v3/{key}?hash={hash}");
            (key, json!({ "serverRelativeURL": url }))
        })
        .collect();
    let text = go_json::to_vec(&json!({ "paths": paths }));
    Ok(with_type(StatusCode::OK, "text/plain; charset=utf-8", text))
}

pub(crate) fn v3(served: &Served, wanted: &str) -> Result<Response<Body>, Status> {
    let versions = served.versions();
    let Some(version) = versions.iter().find(|version| key(version) == wanted) else {
        return Ok(empty(StatusCode::NOT_FOUND));
    };
    Ok(document(StatusCode::OK, &describe(served, version)))
}

fn describe(served: &Served, version: &GroupVersion) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for resource in served.in_version(&version.group, &version.version) {
        let reference = format!("#/components/schemas/{}", schema_name(resource));
        paths.extend(path(resource, &json!({"schema": {"$ref": reference}})));
        schemas.insert(
            schema_name(resource),
            written(resource).unwrap_or_else(|| schema(resource)),
        );
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": super::GIT_VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// Answers with OpenAPI v2, only as JSON. kube-apiserver has a protobuf form
/// too.
pub(crate) fn v2(served: &Served, headers: &HeaderMap) -> Response<Body> {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.map_or(Ok(""), HeaderValue::to_str);
    let takes_json = accept.is_ok_and(|accept| {
        accept.is_empty()
            || parse_accept(accept).is_some_and(|clauses| {
                clauses
                    .iter()
                    .any(|clause| clause.matches("application", "json"))
            })
    });
    let vary = (header::VARY, HeaderValue::from_static("Accept"));
    if !takes_json {
        let mut refused = empty(StatusCode::NOT_ACCEPTABLE);
        refused.headers_mut().extend([vary]);
        return refused;
    }
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for resource in served.all() {
        paths.extend(path(resource, &json!({})));
        definitions.insert(schema_name(resource), schema(resource));
    }
    let description = json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": super::GIT_VERSION},
        "paths": paths,
        "definitions": definitions,
    });
    let mut response = document(StatusCode::OK, &description);
    response.headers_mut().extend([vary]);
    response
}

fn schema_name(resource: &Resource) -> String {
    let group = match resource.gvr.group.as_str() {
        "" => "core",
        group => group,
    };
    format!("{group}.{}.{}", resource.gvr.version, resource.kind)
}

fn kind_of(resource: &Resource) -> Value {
    json!({
        "group": resource.gvr.group,
        "version": resource.gvr.version,
        "kind": resource.kind,
    })
}

fn schema(resource: &Resource) -> Value {
    json!({
        "description": format!("{} is served without a description of its fields.", resource.kind),
        "type": "object",
        "x-kubernetes-group-version-kind": [kind_of(resource)],
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Returns the schema of a custom resource from its definition, with the fields
/// that every object has.
fn written(resource: &Resource) -> Option<Value> {
    let mut schema = resource.custom.as_ref()?.open_api.as_deref()?.clone();
    let map = schema.as_object_mut()?;
    map.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!([kind_of(resource)]),
    );
    let properties = map
        .entry("properties")
        .or_insert_with(|| json!({}))
        .as_object_mut()?;
    for (name, kind) in [
        ("apiVersion", "string"),
        ("kind", "string"),
        ("metadata", "object"),
    ] {
        properties
            .entry(name)
            .or_insert_with(|| json!({ "type": kind }));
    }
    Some(schema)
}

/// Returns the path of one object, with GET and PATCH.
fn path(resource: &Resource, media: &Value) -> Option<(String, Value)> {
    if resource.verbs == Verbs::CreateOnly {
        return None;
    }
    let gv = resource.gvr.group_version().path();
    let scope = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let path = format!("{gv}{scope}/{}/{{name}}", resource.gvr.resource);
    let response = if media.get("schema").is_some() {
        json!({"200": {"description": "OK", "content": {"application/json": media}}})
    } else {
        json!({"200": {"description": "OK"}})
    };
    let parameter = |name: &str| json!({"name": name, "in": "query", "type": "string"});
    Some((
        path,
        json!({
            "get": {
                "responses": response,
                "x-kubernetes-action": "get",
                "x-kubernetes-group-version-kind": kind_of(resource),
            },
            "patch": {
                "parameters": [
                    parameter("dryRun"),
                    parameter("fieldManager"),
                    parameter("fieldValidation"),
                ],
                "responses": response,
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind_of(resource),
            },
        }),
    ))
}
