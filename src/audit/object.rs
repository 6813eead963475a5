//! Reads the object in a body, and writes it as the JSON that an event holds.

use kubernetes_wire::api::protobuf::MAGIC;
use kubernetes_wire::api::protobuf_wire::{self, Fields};
use kubernetes_wire::representation::{scan, transcode};
use kubernetes_wire::schema::Schema;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::text::{Object, string};

const MANAGED_FIELDS: &[u8] = b"managedFields";

/// The kind of a body's content, which its first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Status,
    /// Any other object of the Kubernetes API.
    Object,
    /// OpenAPI, a log, text.
    Else,
}

/// apiVersion and kind of every real object end within this many bytes of protobuf.
const HEAD_BYTES: usize = 512;

/// A line of a Status in YAML, whose keys are sorted.
const YAML_STATUS: &[u8] = b"\nkind: Status\n";

/// Tells the kind of an answer from its first bytes. API servers write kind and
/// apiVersion first: in this order for built-in kinds, in the other for custom
/// resources.
pub(super) fn sniff(first: &[u8]) -> Kind {
    if first.starts_with(MAGIC) {
        let head = first.get(..HEAD_BYTES.min(first.len())).unwrap_or_default();
        return match type_meta(head) {
            Some((_, kind)) if kind == "Status" => Kind::Status,
            _ => Kind::Object,
        };
    }
    if first.starts_with(b"apiVersion: ") {
        // A Status is so short that the first bytes hold all of it.
        let is_status = first.windows(YAML_STATUS.len()).any(|w| w == YAML_STATUS);
        return if is_status {
            Kind::Status
        } else {
            Kind::Object
        };
    }
    let head: Vec<u8> = first
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .take(16)
        .collect();
    if head.starts_with(br#"{"kind":"Status""#) {
        Kind::Status
    } else if head.starts_with(br#"{"kind":"#) || head.starts_with(br#"{"apiVersion":"#) {
        Kind::Object
    } else {
        Kind::Else
    }
}

/// Returns the object as compact JSON with Go's escapes. `None` if the body holds no
/// object.
pub(super) fn json(body: &[u8]) -> Option<Vec<u8>> {
    if let Some(envelope) = body.strip_prefix(MAGIC) {
        return from_protobuf(body, envelope);
    }
    let start = body.iter().position(|b| !b.is_ascii_whitespace())?;
    if body.get(start) == Some(&b'{') || body.get(start) == Some(&b'[') {
        serde_json::from_slice::<IgnoredAny>(body).ok()?;
        return Some(compact(body));
    }
    // A patch of server-side apply may be YAML.
    let text = std::str::from_utf8(body).ok()?;
    let value: Value = serde_saphyr::from_str(text).ok()?;
    value
        .is_object()
        .then(|| kubernetes_wire::api::go_json::to_vec(&value))
}

fn from_protobuf(body: &[u8], envelope: &[u8]) -> Option<Vec<u8>> {
    let (api_version, kind) = type_meta(body)?;
    let raw = bytes(envelope, 2)?;
    let mut out = Vec::new();
    let mut object = Object::begin(&mut out);
    object.text("kind", &kind);
    object.text("apiVersion", &api_version);
    let mut inside = Vec::new();
    let known = Schema::builtin().kind(&api_version, &kind);
    let written = known.map(|message| transcode::to_json(message, raw, &mut inside));
    if written != Some(Ok(())) {
        // A kind that the schema does not know is written as runtime.Unknown without
        // its bytes, as Go's encoder does.
        object.field(b"ContentEncoding").extend_from_slice(b"\"\"");
        string(
            b"application/vnd.kubernetes.protobuf",
            object.field(b"ContentType"),
        );
        object.end();
        return Some(out);
    }
    if kind.ends_with("List") {
        // kube-apiserver writes an empty list as `[]`. Protobuf cannot tell it from
        // null.
        inside = rewrite(&inside, |key, value| {
            (key == b"items" && value == b"null").then(|| b"[]".to_vec())
        });
    }
    match inside.strip_prefix(b"{") {
        Some(b"}") | None => object.end(),
        Some(rest) => {
            out.push(b',');
            out.extend_from_slice(rest);
        }
    }
    Some(out)
}

fn type_meta(body: &[u8]) -> Option<(String, String)> {
    let meta = bytes(body.strip_prefix(MAGIC)?, 1)?;
    let text = |number| {
        let bytes = bytes(meta, number).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    Some((text(1), text(2)))
}

fn bytes(message: &[u8], wanted: u64) -> Option<&[u8]> {
    Fields::new(message)
        .map_while(Result::ok)
        .find_map(|(number, value)| match value {
            protobuf_wire::Value::Bytes(bytes) if number == wanted => Some(bytes),
            _ => None,
        })
}

/// Rewrites DeleteOptions to the internal version, in which kube-apiserver's events
/// have them.
pub(super) fn internal_options(json: &[u8]) -> Vec<u8> {
    rewrite(json, |key, _| {
        (key == b"apiVersion").then(|| br#""meta.k8s.io/__internal""#.to_vec())
    })
}

/// Returns the JSON without space between tokens, and with the characters escaped
/// that are special in HTML. Go's encoder writes nested raw JSON in this way.
fn compact(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = json;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' if !in_string => continue,
            b'<' => out.extend_from_slice(b"\\u003c"),
            b'>' => out.extend_from_slice(b"\\u003e"),
            b'&' => out.extend_from_slice(b"\\u0026"),
            0xe2 if matches!(tail, [0x80, 0xa8 | 0xa9, ..]) => {
                let last = if tail.get(1) == Some(&0xa8) {
                    b'8'
                } else {
                    b'9'
                };
                out.extend_from_slice(b"\\u202");
                out.push(last);
                rest = tail.get(2..).unwrap_or_default();
            }
            byte => out.push(*byte),
        }
        if *byte == b'"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && *byte == b'\\' && !escaped;
    }
    out
}

/// Returns the JSON without `metadata.managedFields`: those of the object, of a
/// list's items and of the objects in a Table's rows.
pub(super) fn without_managed_fields(json: &[u8]) -> Vec<u8> {
    let is_table = scan::text_at(json, &["kind"]).is_some_and(|k| k == "Table");
    rewrite(json, |key, value| match key {
        b"metadata" => Some(without(value, MANAGED_FIELDS)),
        b"items" => Some(each(value, of_object)),
        b"rows" if is_table => Some(each(value, |row| {
            rewrite(row, |key, value| {
                (key == b"object").then(|| of_object(value))
            })
        })),
        _ => None,
    })
}

fn of_object(json: &[u8]) -> Vec<u8> {
    rewrite(json, |key, value| {
        (key == b"metadata").then(|| without(value, MANAGED_FIELDS))
    })
}

/// Replaces each value for which `change` returns another one.
fn rewrite(json: &[u8], change: impl Fn(&[u8], &[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut copied = 0;
    for member in scan::members(json).map_while(Result::ok) {
        if let Some(changed) = change(member.key, member.value) {
            out.extend_from_slice(json.get(copied..member.span.start).unwrap_or_default());
            out.extend_from_slice(&changed);
            copied = member.span.end;
        }
    }
    out.extend_from_slice(json.get(copied..).unwrap_or_default());
    out
}

fn each(list: &[u8], change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    if list.first() != Some(&b'[') {
        return list.to_vec();
    }
    let mut out = vec![b'['];
    for (i, (_, element)) in scan::elements(list).map_while(Result::ok).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&change(element));
    }
    out.push(b']');
    out
}

fn without(json: &[u8], name: &[u8]) -> Vec<u8> {
    if json.first() != Some(&b'{') {
        return json.to_vec();
    }
    let mut out = vec![b'{'];
    for member in scan::members(json).map_while(Result::ok) {
        if member.key == name {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(member.key);
        out.extend_from_slice(b"\":");
        out.extend_from_slice(member.value);
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_first_bytes_tell_a_status_from_an_object() {
        let status = kubernetes_wire::api::Status::unauthorized();
        let protobuf = kubernetes_wire::api::protobuf::encode_status(&status);
        for (first, expected) in [
            (&br#"{"kind":"Status","apiVersion":"v1""#[..], Kind::Status),
            (b"{\n  \"kind\": \"Status\",\n", Kind::Status),
            (&protobuf, Kind::Status),
            (br#"{"kind":"Pod","apiVersion":"v1""#, Kind::Object),
            (br#"{"apiVersion":"example.com/v1""#, Kind::Object),
            (b"apiVersion: v1\nkind: Pod", Kind::Object),
            (b"apiVersion: v1\ncode: 1\nkind: Status\n", Kind::Status),
            (br#"{"swagger":"2.0""#, Kind::Else),
            (b"ok", Kind::Else),
            (b"", Kind::Else),
        ] {
            assert_eq!(sniff(first), expected, "{first:?}");
        }
    }

    #[test]
    fn json_becomes_what_go_embeds() {
        let of = |body: &str| json(body.as_bytes()).map(text);
        assert_eq!(
            of("{ \"a\" : \"x < y \\\" > \u{2028}\",\n \"b\":[ 1 , 2 ] }\n").as_deref(),
            Some("{\"a\":\"x \\u003c y \\\" \\u003e \\u2028\",\"b\":[1,2]}")
        );
        assert_eq!(of("{\"a\":"), None);
        assert_eq!(of("just text"), None);
        assert_eq!(
            of("a: {b: [1, c]}").as_deref(),
            Some("{\"a\":{\"b\":[1,\"c\"]}}")
        );
    }

    #[test]
    fn protobuf_becomes_json_and_what_is_not_known_is_named() {
        let envelope = |kind: &str, raw: &[u8]| {
            use kubernetes_wire::api::protobuf_wire::put_bytes;
            let (mut meta, mut out) = (Vec::new(), MAGIC.to_vec());
            put_bytes(1, b"v1", &mut meta);
            put_bytes(2, kind.as_bytes(), &mut meta);
            put_bytes(1, &meta, &mut out);
            put_bytes(2, raw, &mut out);
            json(&out).map(text)
        };
        // metadata.name is field 1 of field 1.
        assert_eq!(
            envelope("ConfigMap", &[10, 3, 10, 1, b'a']).as_deref(),
            Some(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#)
        );
        assert_eq!(
            envelope("Nothing", &[]).as_deref(),
            Some(
                r#"{"kind":"Nothing","apiVersion":"v1","ContentEncoding":"","ContentType":"application/vnd.kubernetes.protobuf"}"#
            )
        );
    }

    #[test]
    fn managed_fields_are_left_out_wherever_they_are() {
        for (json, expected) in [
            (
                r#"{"kind":"A","metadata":{"name":"a","managedFields":[{}]},"x":1}"#,
                r#"{"kind":"A","metadata":{"name":"a"},"x":1}"#,
            ),
            (
                r#"{"kind":"L","metadata":{},"items":[{"metadata":{"managedFields":[]}},{"a":1}]}"#,
                r#"{"kind":"L","metadata":{},"items":[{"metadata":{}},{"a":1}]}"#,
            ),
            (
                r#"{"kind":"Table","rows":[{"cells":[1],"object":{"metadata":{"managedFields":[1],"a":2}}}]}"#,
                r#"{"kind":"Table","rows":[{"cells":[1],"object":{"metadata":{"a":2}}}]}"#,
            ),
            (
                r#"{"items":null,"metadata":null}"#,
                r#"{"items":null,"metadata":null}"#,
            ),
        ] {
            assert_eq!(text(without_managed_fields(json.as_bytes())), expected);
        }
    }
}
