//! Objects without `metadata.managedFields` (KEP-5958).

use bytes::{Bytes, BytesMut};

use super::{Encoding, scan};
use crate::api::protobuf_wire::{Fields, Value, put_prefix};

/// The field number of `metadata` in every object's message.
const METADATA: u8 = 1;
/// The field number of `managedFields` in `metav1.ObjectMeta`.
const MANAGED_FIELDS: u64 = 17;
const KEY: &str = "managedFields";
const KEY_AND_COLON: &[u8] = b"\"managedFields\":";

/// Returns the list item without `metadata.managedFields`. `None` if the item is not
/// compact JSON or protobuf with metadata.
///
/// ```
/// use bytes::Bytes;
/// use kubernetes_wire::representation::{Encoding, managed_fields};
///
/// let item = Bytes::from(r#"{"metadata":{"managedFields":[{}],"name":"a"},"data":{}}"#);
/// let rest = managed_fields::without(Encoding::Json, &item);
/// assert_eq!(rest.unwrap(), r#"{"metadata":{"name":"a"},"data":{}}"#);
/// ```
pub fn without(encoding: Encoding, item: &Bytes) -> Option<Bytes> {
    match encoding {
        Encoding::Json => without_member(item),
        Encoding::Protobuf => without_field(item),
    }
}

/// Returns an object's metadata, which is compact JSON, without `managedFields`. `None`
/// if it is not a JSON object.
pub(super) fn without_in_metadata(metadata: &[u8]) -> Option<Box<[u8]>> {
    let [before, after] = around_member(metadata)?;
    Some([before, after].concat().into())
}

fn without_member(item: &Bytes) -> Option<Bytes> {
    let metadata = scan::find(item, &["metadata"])?;
    let [before, after] = around_member(item.get(metadata.clone())?)?;
    if before.len().saturating_add(after.len()) == metadata.len() {
        return Some(item.clone());
    }
    let (start, end) = (item.get(..metadata.start)?, item.get(metadata.end..)?);
    Some([start, before, after, end].concat().into())
}

/// Returns the metadata before and after the member `managedFields`. One of the commas
/// beside the member goes with it, if there are any.
fn around_member(metadata: &[u8]) -> Option<[&[u8]; 2]> {
    let Some(value) = scan::find(metadata, &[KEY]) else {
        return metadata.starts_with(b"{").then_some([metadata, b""]);
    };
    let (before, after) = (metadata.get(..value.start)?, metadata.get(value.end..)?);
    let before = before.strip_suffix(KEY_AND_COLON)?;
    Some(match before.strip_suffix(b",") {
        Some(before) => [before, after],
        None => [before, after.strip_prefix(b",").unwrap_or(after)],
    })
}

fn without_field(item: &Bytes) -> Option<Bytes> {
    let mut fields = Fields::new(item);
    let (number, Value::Bytes(metadata)) = fields.next()?.ok()? else {
        return None;
    };
    if number != u64::from(METADATA) {
        return None;
    }
    let rest = fields.rest();
    let mut kept = BytesMut::with_capacity(metadata.len());
    let mut left = Fields::new(metadata);
    let mut before = metadata;
    while let Some(field) = left.next() {
        let (number, value) = field.ok()?;
        if matches!(value, Value::Cut(_)) {
            return None;
        }
        let after = left.rest();
        if number != MANAGED_FIELDS {
            let length = before.len().saturating_sub(after.len());
            kept.extend_from_slice(before.get(..length)?);
        }
        before = after;
    }
    if !before.is_empty() {
        // The last field is truncated.
        return None;
    }
    if kept.len() == metadata.len() {
        return Some(item.clone());
    }
    let mut out = BytesMut::with_capacity(item.len());
    put_prefix(METADATA, kept.len(), &mut out);
    out.extend_from_slice(&kept);
    out.extend_from_slice(rest);
    Some(out.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::representation::{Envelope, Form};

    fn json(item: &str) -> Option<String> {
        let rest = without(Encoding::Json, &Bytes::copy_from_slice(item.as_bytes()))?;
        Some(String::from_utf8(rest.to_vec()).unwrap())
    }

    #[test]
    fn the_member_goes_with_one_comma() {
        let fields = r#""managedFields":[{"manager":"a,b","fieldsV1":{"f:metadata":{}}}]"#;
        for (metadata, expected) in [
            (format!("{{{fields}}}"), "{}"),
            (format!(r#"{{{fields},"name":"a"}}"#), r#"{"name":"a"}"#),
            (format!(r#"{{"labels":{{}},{fields}}}"#), r#"{"labels":{}}"#),
            (
                format!(r#"{{"labels":{{}},{fields},"name":"a"}}"#),
                r#"{"labels":{},"name":"a"}"#,
            ),
            (
                r#"{"labels":{"managedFields":"x"}}"#.to_owned(),
                r#"{"labels":{"managedFields":"x"}}"#,
            ),
        ] {
            let item = |metadata: &str| {
                format!(r#"{{"kind":"A","metadata":{metadata},"spec":{{"managedFields":1}}}}"#)
            };
            assert_eq!(json(&item(&metadata)).unwrap(), item(expected));
        }
        for malformed in ["", "{}", "[]", r#"{"metadata":{"managedFields" :[]}}"#] {
            assert_eq!(json(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn messages_lose_the_same() {
        let envelope = Envelope::new(Form::Struct, "v1", "ConfigMap", "ConfigMapList");
        for managers in 0..4 {
            let one = r#"{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-11-21T03:48:19Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}"#;
            let managed = match managers {
                0 => String::new(),
                n => format!(r#","managedFields":[{}]"#, vec![one; n].join(",")),
            };
            let data = "x".repeat(managers * 100);
            let item = |managed: &str| {
                Bytes::from(format!(
                    r#"{{"metadata":{{"name":"a","uid":"u","creationTimestamp":"2026-11-21T03:48:19Z"{managed}}},"data":{{"k":"{data}"}}}}"#
                ))
            };
            let message = |item: Bytes| envelope.transcoded(&item, Encoding::Protobuf).unwrap();
            let (whole, expected) = (item(&managed), item(""));
            assert_eq!(without(Encoding::Json, &whole).unwrap(), expected);
            let rest = without(Encoding::Protobuf, &message(whole)).unwrap();
            assert_eq!(rest, message(expected));
        }
        for broken in [&b""[..], b"\x12\x00", b"\x0a\x05a", b"\x0a\x02\x8a\x05"] {
            let broken = Bytes::from_static(broken);
            assert_eq!(without(Encoding::Protobuf, &broken), None, "{broken:?}");
        }
    }
}
