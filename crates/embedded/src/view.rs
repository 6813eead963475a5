//! Stored objects as one version of a resource shows them.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{encoding, registry::Resource, storage::Stored};
use kubernetes_wire::representation::{Encoding, Envelope, Form, ListMeta};

/// The object as an item of a list: built-in kinds leave kind and apiVersion
/// out there.
pub fn item(resource: &Resource, stored: &Stored) -> Bytes {
    if resource.custom.is_none() {
        return stored.encoded(encoding::built_in);
    }
    match in_version(resource, &stored.value) {
        Cow::Borrowed(_) => stored.encoded(encoding::custom),
        Cow::Owned(converted) => encoding::custom(&converted),
    }
}

/// The object by itself.
pub fn object(resource: &Resource, stored: &Stored) -> Bytes {
    let item = item(resource, stored);
    if resource.custom.is_some() {
        item
    } else {
        encoding::with_type(&resource.kind, &resource.api_version(), &item)
    }
}

/// The whole value with kind and apiVersion, as a patch sees it.
pub fn value(resource: &Resource, stored: &Stored) -> Value {
    let mut value = stored.value.clone();
    set_type(resource, &mut value);
    value
}

pub fn set_type(resource: &Resource, value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert("kind".into(), resource.kind.clone().into());
        map.insert("apiVersion".into(), resource.api_version().into());
    }
}

/// The value as it is stored: built-in kinds without kind and apiVersion,
/// custom resources in their storage version.
pub fn to_stored(resource: &Resource, value: &mut Value) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    match &resource.custom {
        None => {
            map.remove("kind");
            map.remove("apiVersion");
        }
        Some(custom) => {
            let api_version = format!("{}/{}", resource.gvr.group, custom.storage_version);
            map.insert("kind".into(), resource.kind.clone().into());
            map.insert("apiVersion".into(), api_version.into());
        }
    }
}

/// Conversion between versions is that of strategy None: only the name changes.
fn in_version<'a>(resource: &Resource, value: &'a Value) -> Cow<'a, Value> {
    let wanted = resource.api_version();
    if value.get("apiVersion").and_then(Value::as_str) == Some(&wanted) {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    set_type(resource, &mut value);
    Cow::Owned(value)
}

/// What stands around the objects of a resource.
pub fn envelope(resource: &Resource) -> Envelope {
    let form = if resource.custom.is_some() {
        Form::Map
    } else {
        Form::Struct
    };
    Envelope::new(
        form,
        &resource.api_version(),
        &resource.kind,
        &resource.list_kind,
    )
}

/// The body of a LIST.
pub fn list(resource: &Resource, items: &[Arc<Stored>], meta: &ListMeta) -> Vec<u8> {
    let envelope = envelope(resource);
    let (prefix, suffix) = envelope.list(Encoding::Json, meta, 0);
    let mut out = prefix.to_vec();
    for (i, stored) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&item(resource, stored));
    }
    out.extend_from_slice(&suffix);
    out
}

/// The object of a BOOKMARK event.
pub fn bookmark(resource: &Resource, revision: u64, initial_events_end: bool) -> Bytes {
    // Conversion writes this into every DaemonSet, the empty one included.
    let daemon_set = resource.kind == "DaemonSet" && resource.custom.is_none();
    let mut annotations = Vec::new();
    if daemon_set {
        annotations.push("\"deprecated.daemonset.template.generation\":\"0\"");
    }
    if initial_events_end {
        annotations.push("\"k8s.io/initial-events-end\":\"true\"");
    }
    let annotations = if annotations.is_empty() {
        String::new()
    } else {
        format!("\"annotations\":{{{}}}", annotations.join(","))
    };
    let version = format!("\"resourceVersion\":\"{revision}\"");
    let pair = |a: String, b: String| match (a.is_empty(), b.is_empty()) {
        (true, _) => b,
        (_, true) => a,
        _ => format!("{a},{b}"),
    };
    if resource.custom.is_some() {
        let metadata = pair(annotations, version);
        return format!(
            "{{\"apiVersion\":\"{}\",\"kind\":\"{}\",\"metadata\":{{{metadata}}}}}",
            resource.api_version(),
            resource.kind
        )
        .into();
    }
    let metadata = format!("\"metadata\":{{{}}}", pair(version, annotations));
    let rest = resource.empty.trim_start_matches('{');
    let rest = rest.strip_suffix('}').unwrap_or(rest).to_owned();
    let body = format!("{{{}}}", pair(metadata, rest));
    encoding::with_type(&resource.kind, &resource.api_version(), body.as_bytes())
}
