//! Reads and changes `metadata` of objects that are plain JSON.

use chrono::{DateTime, SecondsFormat, Utc};
use rand::Rng;
use serde_json::{Map, Value};

/// The characters that Kubernetes appends to generateName: no vowels, and none that
/// look alike.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const RANDOM_LENGTH: usize = 5;
/// The longest prefix that leaves room for the random part in a label.
const MAX_PREFIX: usize = 63 - RANDOM_LENGTH;

/// The finalizers that propagationPolicy sets for the garbage collector.
pub(crate) const GARBAGE_COLLECTION: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Returns the metadata of `object`, and adds it if it is missing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_at(as_map(object), "metadata")
}

/// Returns the object at `key`, and adds it if it is missing or something else.
pub(crate) fn map_at<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    as_map(map.entry(key).or_insert(Value::Null))
}

/// Returns the object in `slot`, and makes one if the slot holds something
/// else.
pub(crate) fn as_map(slot: &mut Value) -> &mut Map<String, Value> {
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made an object just above"),
    }
}

pub(crate) fn text<'a>(metadata: &'a Map<String, Value>, key: &str) -> &'a str {
    metadata
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(crate) fn field<'a>(object: &'a Value, key: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(key)?.as_str())
        .unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    field(object, "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    field(object, "namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    field(object, "uid")
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !field(object, "deletionTimestamp").is_empty()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    !finalizers(object).is_empty()
}

/// Returns the current time as `metav1.Time`: seconds in UTC.
pub(crate) fn now() -> String {
    timestamp(Utc::now())
}

pub(crate) fn timestamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

pub(crate) fn generate_name(prefix: &str) -> String {
    let mut rng = rand::rng();
    let random = (0..RANDOM_LENGTH).filter_map(|_| {
        let at = rng.random_range(0..NAME_ALPHABET.len());
        NAME_ALPHABET.get(at).copied().map(char::from)
    });
    prefix.chars().take(MAX_PREFIX).chain(random).collect()
}

/// Removes empty values, as Go omits empty maps and lists of metadata.
pub(crate) fn drop_empty(metadata: &mut Map<String, Value>) {
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
}
