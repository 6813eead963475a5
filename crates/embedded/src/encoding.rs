//! JSON bytes of objects, in the key order clients of the real server see.
//!
//! Built-in kinds come out in the order of their Go structs as far as it is the
//! same for all of them: the top level, `metadata` and what is in it. Deeper
//! maps are sorted. Custom resources are sorted throughout, which is exactly
//! what the real server does with them.

use bytes::Bytes;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

use kubernetes_wire::api::go_json;
use kubernetes_wire::representation::partial_object_metadata::{
    MANAGED_FIELDS_ENTRY, OBJECT_META, OWNER_REFERENCE,
};

/// Top-level keys of the built-in kinds; no kind contradicts this order.
const TOP: &[&str] = &[
    "kind",
    "apiVersion",
    "metadata",
    "spec",
    "status",
    "immutable",
    "data",
    "binaryData",
    "stringData",
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "series",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
    "secrets",
    "imagePullSecrets",
    "automountServiceAccountToken",
    "subsets",
    "template",
    "revision",
    "rules",
    "aggregationRule",
    "subjects",
    "roleRef",
    "addressType",
    "endpoints",
    "ports",
    "provisioner",
    "parameters",
    "reclaimPolicy",
    "mountOptions",
    "allowVolumeExpansion",
    "volumeBindingMode",
    "allowedTopologies",
    "value",
    "globalDefault",
    "description",
    "preemptionPolicy",
];

/// A built-in object or list item as it is stored: without kind and apiVersion
/// unless `value` has them.
pub fn built_in(value: &Value) -> Bytes {
    go_json::to_vec(&Ordered {
        value,
        place: Place::Top,
    })
    .into()
}

/// A custom resource: every map sorted.
pub fn custom(value: &Value) -> Bytes {
    go_json::to_vec(value).into()
}

/// Puts kind and apiVersion in front of an encoded built-in object.
pub fn with_type(kind: &str, api_version: &str, item: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(item.len() + kind.len() + api_version.len() + 32);
    out.extend_from_slice(b"{\"kind\":");
    out.extend_from_slice(&go_json::to_vec(kind));
    out.extend_from_slice(b",\"apiVersion\":");
    out.extend_from_slice(&go_json::to_vec(api_version));
    match item.strip_prefix(b"{") {
        Some(rest) if rest != b"}" => {
            out.push(b',');
            out.extend_from_slice(rest);
        }
        _ => out.push(b'}'),
    }
    out.into()
}

#[derive(Clone, Copy)]
enum Place {
    Top,
    Metadata,
    OwnerReferences,
    ManagedFields,
    Elsewhere,
}

impl Place {
    fn order(self) -> &'static [&'static str] {
        match self {
            Self::Top => TOP,
            Self::Metadata => &OBJECT_META,
            Self::OwnerReferences => &OWNER_REFERENCE,
            Self::ManagedFields => &MANAGED_FIELDS_ENTRY,
            Self::Elsewhere => &[],
        }
    }

    fn child(self, key: &str) -> Self {
        match (self, key) {
            (Self::Top, "metadata") => Self::Metadata,
            (Self::Metadata, "ownerReferences") => Self::OwnerReferences,
            (Self::Metadata, "managedFields") => Self::ManagedFields,
            _ => Self::Elsewhere,
        }
    }
}

struct Ordered<'a> {
    value: &'a Value,
    place: Place,
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.value, self.place) {
            (value, Place::Elsewhere) => value.serialize(serializer),
            (Value::Object(map), place) => ordered_map(map, place, serializer),
            (Value::Array(items), place) => {
                serializer.collect_seq(items.iter().map(|value| Ordered { value, place }))
            }
            (value, _) => value.serialize(serializer),
        }
    }
}

fn ordered_map<S: Serializer>(
    map: &Map<String, Value>,
    place: Place,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let order = place.order();
    let known = order.iter().filter_map(|key| map.get_key_value(*key));
    let rest = map.iter().filter(|(key, _)| !order.contains(&key.as_str()));
    let mut out = serializer.serialize_map(Some(map.len()))?;
    for (key, value) in known.chain(rest) {
        out.serialize_entry(
            key,
            &Ordered {
                value,
                place: place.child(key),
            },
        )?;
    }
    out.end()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn built_in_kinds_follow_go_order() {
        let item = built_in(&json!({
            "data": {"b": "1", "a": "x<y"},
            "metadata": {"uid": "u", "name": "n", "labels": {"z": "1", "a": "2"},
                "ownerReferences": [{"uid": "o", "apiVersion": "v1", "name": "m", "kind": "K"}]},
        }));
        assert_eq!(
            with_type("ConfigMap", "v1", &item),
            concat!(
                r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n","uid":"u","#,
                r#""labels":{"a":"2","z":"1"},"ownerReferences":[{"apiVersion":"v1","kind":"K","#,
                r#""name":"m","uid":"o"}]},"data":{"a":"x\u003cy","b":"1"}}"#
            )
        );
        assert_eq!(
            with_type("K", "v1", b"{}"),
            r#"{"kind":"K","apiVersion":"v1"}"#
        );
    }
}
