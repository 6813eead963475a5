//! Stored objects as one version of a resource shows them.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{encoding, registry::Resource, storage::Stored};
use crate::api::go_json;

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

/// What a list says of itself.
#[derive(Clone, Debug, Default)]
pub struct ListMeta {
    pub revision: u64,
    /// Empty on the last page.
    pub continue_token: String,
    pub remaining: Option<usize>,
}

pub fn list(resource: &Resource, items: &[Arc<Stored>], meta: &ListMeta) -> Vec<u8> {
    let api_version = go_json::to_vec(&resource.api_version());
    let kind = go_json::to_vec(&resource.list_kind);
    let token = go_json::to_vec(&meta.continue_token);
    let mut out = Vec::new();
    let custom = resource.custom.is_some();
    if custom {
        out.extend([b"{\"apiVersion\":", &api_version[..], b",\"items\":["].concat());
    } else {
        out.extend([b"{\"kind\":", &kind[..], b",\"apiVersion\":", &api_version].concat());
        out.extend(format!(",\"metadata\":{{\"resourceVersion\":\"{}\"", meta.revision).bytes());
        if !meta.continue_token.is_empty() {
            out.extend([b",\"continue\":", &token[..]].concat());
        }
        if let Some(remaining) = meta.remaining {
            out.extend(format!(",\"remainingItemCount\":{remaining}").bytes());
        }
        out.extend_from_slice(b"},\"items\":[");
    }
    for (i, stored) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&item(resource, stored));
    }
    if custom {
        out.extend(
            [
                b"],\"kind\":",
                &kind[..],
                b",\"metadata\":{\"continue\":",
                &token,
            ]
            .concat(),
        );
        if let Some(remaining) = meta.remaining {
            out.extend(format!(",\"remainingItemCount\":{remaining}").bytes());
        }
        out.extend(format!(",\"resourceVersion\":\"{}\"}}}}", meta.revision).bytes());
    } else {
        out.extend_from_slice(b"]}");
    }
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
