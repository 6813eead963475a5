//! Writes the JSON of objects like the real server: built-in kinds as their Go
//! structs, custom resources as maps whose keys are sorted.

use bytes::Bytes;
use kubernetes_wire::api::go_json;
use kubernetes_wire::representation::partial_object_metadata::{
    MANAGED_FIELDS_ENTRY, OBJECT_META, OWNER_REFERENCE,
};
use kubernetes_wire::representation::{Encoding, Envelope, Form, json_envelope::with_type};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

/// Writes a built-in object as a list item, without kind and apiVersion. The schema
/// tells the order of its fields, and which empty ones are written. An object that
/// does not fit the schema is written as it was stored, metadata first.
pub(crate) fn built_in(api_version: &str, kind: &str, value: &Value) -> Bytes {
    let envelope = Envelope::new(Form::Struct, api_version, kind, "");
    let as_go = |json: &[u8]| {
        let message = envelope.transcoded(json, Encoding::Protobuf).ok()?;
        envelope.transcoded(&message, Encoding::Json).ok()
    };
    as_go(&go_json::to_vec(value)).unwrap_or_else(|| {
        let place = PathTraits::Top;
        go_json::to_vec(&Ordered { value, place }).into()
    })
}

/// Writes a built-in object with its kind and apiVersion.
pub(crate) fn whole(api_version: &str, kind: &str, value: &Value) -> Bytes {
    with_type(api_version, kind, &built_in(api_version, kind, value))
}

pub(crate) fn custom(value: &Value) -> Bytes {
    go_json::to_vec(value).into()
}

/// A place in an object. In some places the order of fields is known without a
/// schema.
#[derive(Clone, Copy)]
enum PathTraits {
    Top,
    Metadata,
    OwnerReferences,
    ManagedFields,
    Elsewhere,
}

impl PathTraits {
    fn order(self) -> &'static [&'static str] {
        match self {
            Self::Top => &["metadata", "spec", "status"],
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
    place: PathTraits,
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.value, self.place) {
            (value, PathTraits::Elsewhere) => value.serialize(serializer),
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
    place: PathTraits,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let order = place.order();
    let known = order.iter().filter_map(|key| map.get_key_value(*key));
    let rest = map.iter().filter(|(key, _)| !order.contains(&key.as_str()));
    let mut out = serializer.serialize_map(Some(map.len()))?;
    for (key, value) in known.chain(rest) {
        let place = place.child(key);
        out.serialize_entry(key, &Ordered { value, place })?;
    }
    out.end()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn built_in_kinds_follow_their_structs() {
        let map = json!({
            "data": {"b": "1", "a": "x<y"},
            "metadata": {"uid": "u", "name": "n", "labels": {"z": "1", "a": "2"},
                "ownerReferences": [{"uid": "o", "apiVersion": "v1", "name": "m", "kind": "K"}]},
        });
        assert_eq!(
            whole("v1", "ConfigMap", &map),
            concat!(
                r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n","uid":"u","#,
                r#""labels":{"a":"2","z":"1"},"ownerReferences":[{"apiVersion":"v1","kind":"K","#,
                r#""name":"m","uid":"o"}]},"data":{"a":"x\u003cy","b":"1"}}"#
            )
        );
        let pod = json!({"spec": {"nodeName": "n", "containers": [{"image": "i", "name": "c"}]}});
        assert_eq!(
            built_in("v1", "Pod", &pod),
            r#"{"metadata":{},"spec":{"containers":[{"name":"c","image":"i","resources":{}}],"nodeName":"n"},"status":{}}"#
        );
    }

    #[test]
    fn what_the_schema_does_not_know_is_kept() {
        let odd = json!({"metadata": {"uid": "u", "name": "n"}, "other": {"b": 1, "a": 2}});
        assert_eq!(
            built_in("v1", "ConfigMap", &odd),
            r#"{"metadata":{"name":"n","uid":"u"},"other":{"a":2,"b":1}}"#
        );
    }
}
