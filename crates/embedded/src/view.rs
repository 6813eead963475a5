//! Converts stored objects to one version of a resource.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use kubernetes_wire::representation::{
    BookmarkTemplate, Encoding, Envelope, Form, ListMeta, json_envelope::with_type,
};
use serde_json::{Value, json};

use super::{encoding, meta, registry::Resource, storage::Stored};

/// Returns the object as an item of a list, where built-in kinds have no kind
/// and apiVersion.
pub(crate) fn item(resource: &Resource, stored: &Stored) -> Bytes {
    if resource.custom.is_none() {
        let api_version = resource.api_version();
        return stored.encoded(|value| encoding::built_in(&api_version, &resource.kind, value));
    }
    match in_version(resource, &stored.value) {
        Cow::Borrowed(_) => stored.encoded(encoding::custom),
        Cow::Owned(converted) => encoding::custom(&converted),
    }
}

pub(crate) fn object(resource: &Resource, stored: &Stored) -> Bytes {
    let item = item(resource, stored);
    if resource.custom.is_some() {
        item
    } else {
        with_type(&resource.api_version(), &resource.kind, &item)
    }
}

/// Returns the value with kind and apiVersion, as a patch sees it.
pub(crate) fn value(resource: &Resource, stored: &Stored) -> Value {
    let mut value = stored.value.clone();
    set_type(resource, &mut value);
    value
}

fn set_type(resource: &Resource, value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert("kind".into(), resource.kind.clone().into());
        map.insert("apiVersion".into(), resource.api_version().into());
    }
}

/// Changes a value into its stored form: built-in kinds have no kind and
/// apiVersion, custom resources have their storage version.
pub(crate) fn to_stored(resource: &Resource, value: &mut Value) {
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

/// Returns the value in the resource's version. Conversion has the strategy
/// None: only the name of the version changes.
fn in_version<'a>(resource: &Resource, value: &'a Value) -> Cow<'a, Value> {
    let wanted = resource.api_version();
    if value.get("apiVersion").and_then(Value::as_str) == Some(&wanted) {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    set_type(resource, &mut value);
    Cow::Owned(value)
}

pub(crate) fn envelope(resource: &Resource) -> Envelope {
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

pub(crate) fn list(resource: &Resource, items: &[Arc<Stored>], meta: &ListMeta) -> Vec<u8> {
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

pub(crate) fn bookmark(resource: &Resource, revision: u64, initial_events_end: bool) -> Bytes {
    let object = empty(resource);
    BookmarkTemplate::learn(&object)
        .map(|template| template.object(revision, initial_events_end).into())
        .unwrap_or(object)
}

/// Returns an object without any field set, as the real server converts it from its
/// internal type.
fn empty(resource: &Resource) -> Bytes {
    let mut value = json!({"metadata": {"resourceVersion": "0"}});
    if resource.custom.is_some() {
        set_type(resource, &mut value);
        return encoding::custom(&value);
    }
    match resource.kind.as_str() {
        "DaemonSet" => {
            let annotations = json!({"deprecated.daemonset.template.generation": "0"});
            meta::metadata_mut(&mut value).insert("annotations".into(), annotations);
        }
        // The field is a pointer in the version, and a number in the internal
        // type.
        "Deployment" | "ReplicaSet" | "StatefulSet" => {
            let spec = meta::map_at(meta::as_map(&mut value), "spec");
            spec.insert("replicas".into(), 0.into());
        }
        _ => {}
    }
    encoding::whole(&resource.api_version(), &resource.kind, &value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    /// The bookmarks are those of kube-apiserver 1.36.
    #[test]
    fn bookmarks_hold_an_empty_object() {
        let registry = Registry::default();
        for (group, resource, expected) in [
            (
                "",
                "pods",
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}"#,
            ),
            (
                "",
                "events",
                r#"{"kind":"Event","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}},"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}"#,
            ),
            (
                "apps",
                "daemonsets",
                r#"{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"resourceVersion":"7","annotations":{"deprecated.daemonset.template.generation":"0","k8s.io/initial-events-end":"true"}},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}}"#,
            ),
            (
                "apps",
                "deployments",
                r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#,
            ),
        ] {
            let resource = registry.lookup(group, "v1", resource).unwrap();
            assert_eq!(bookmark(&resource, 7, true), expected);
        }
    }
}
