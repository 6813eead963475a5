//! The scale subresource: a small view of a workload.

use std::sync::Arc;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use kubernetes_wire::{api::Status, representation::table::selector::Selector};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    body,
    call::{Call, MAX_WRITE_ATTEMPTS},
    errors, patch,
    reply::{Body, json_bytes},
    update,
};
use crate::{encoding, meta, registry::Scale, storage::Stored, view};

const API_VERSION: &str = "autoscaling/v1";

pub(super) fn get(call: &Call<'_>) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    answer(call, &call.find()?)
}

pub(super) async fn put(call: &Call<'_>, incoming: Incoming) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let paths = paths(call)?;
    let by_patch = call.head.method == http::Method::PATCH;
    let (patch, whole) = if by_patch {
        (Some(patch::read(call, incoming).await?), None)
    } else {
        let object = body::object(call, incoming, "Scale", API_VERSION).await?;
        update::check_name(call, &object)?;
        (None, Some(object))
    };
    let dry_run = body::dry_run(call, "UpdateOptions")?;
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let old = call.find()?;
        let scale = match (&patch, &whole) {
            (Some(patch), _) => patch.apply(call, &scale(call, &old)?, "scale")?,
            (None, Some(whole)) => whole.clone(),
            (None, None) => return Err(errors::method_not_allowed()),
        };
        let version = meta::field(&scale, "resourceVersion");
        if !version.is_empty() && version != old.revision.to_string() {
            return Err(errors::modified(&call.group_resource(), &call.target.name));
        }
        let replicas = scale
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let mut new = view::value(&call.resource, &old);
        set(&mut new, &paths.spec_replicas, replicas.into());
        match update::replace(call, &old, new, false, dry_run) {
            Ok(Some(stored)) => return answer(call, &stored),
            Ok(None) => {}
            Err(conflict) if conflict.code == 409 && version.is_empty() => {}
            Err(other) => return Err(other),
        }
    }
    Err(errors::modified(&call.group_resource(), &call.target.name))
}

fn paths<'a>(call: &'a Call<'_>) -> Result<&'a Scale, Status> {
    call.resource
        .scale
        .as_ref()
        .ok_or_else(Status::unknown_path)
}

fn answer(call: &Call<'_>, stored: &Arc<Stored>) -> Result<Response<Body>, Status> {
    let mut scale = scale(call, stored)?;
    if let Some(map) = scale.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    let bytes = encoding::whole(API_VERSION, "Scale", &scale);
    Ok(json_bytes(StatusCode::OK, bytes.to_vec()))
}

fn scale(call: &Call<'_>, stored: &Stored) -> Result<Value, Status> {
    let paths = paths(call)?;
    let object = &stored.value;
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = Map::new();
    for key in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = object.get("metadata").and_then(|m| m.get(key)) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut spec = Map::new();
    let wanted = number(&paths.spec_replicas);
    if wanted != 0 {
        spec.insert("replicas".to_owned(), wanted.into());
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = paths
        .selector
        .as_deref()
        .and_then(|pointer| object.pointer(pointer))
        .map(selector_text)
        .unwrap_or_default();
    if !selector.is_empty()
        && let Some(map) = status.as_object_mut()
    {
        map.insert("selector".to_owned(), selector.into());
    }
    Ok(json!({
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }))
}

/// Returns the text of a label selector, or of a replication controller's plain
/// map. Custom resources have a text already.
fn selector_text(selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        Value::Object(labels) if labels.values().all(Value::is_string) => {
            let pairs = labels
                .iter()
                .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
            pairs.collect::<Vec<_>>().join(",")
        }
        selector => Selector::deserialize(selector)
            .ok()
            .and_then(|selector| selector.text().ok())
            .unwrap_or_default(),
    }
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut slot = object;
    for key in pointer.split('/').skip(1) {
        slot = meta::as_map(slot).entry(key).or_insert(Value::Null);
    }
    *slot = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_texts() {
        for (selector, expected) in [
            (json!("a=b"), "a=b"),
            (json!({"a": "b", "c": "d"}), "a=b,c=d"),
            (json!({"matchLabels": {"c": "d", "a": "b"}}), "a=b,c=d"),
            (
                json!({"matchLabels": {"c": "d"}, "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["y", "x"]},
                ]}),
                "a in (x,y),c=d",
            ),
            (json!(null), ""),
        ] {
            assert_eq!(selector_text(&selector), expected);
        }
    }
}
