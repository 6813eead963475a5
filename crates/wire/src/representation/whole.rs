//! Encodes whole objects, with kind and apiVersion. Lists, Statuses and
//! discovery documents are such objects, too. Only built-in kinds exist as
//! protobuf.

use bytes::Bytes;

use super::json_envelope::{EventType, with_type};
use super::protobuf_envelope::{Answer, Type};
use super::{pretty, scan, transcode, yaml};
use crate::negotiation::MediaType;
use crate::schema::Schema;

/// Returns the body of an answer. `json` must be in Go's form. `None` if the object
/// cannot be written in this media type.
pub fn encode(json: &Bytes, media_type: MediaType, indented: bool) -> Option<Bytes> {
    match media_type {
        MediaType::Json if indented => Some(pretty::indent(json).into()),
        MediaType::Json => Some(json.clone()),
        MediaType::Yaml => yaml::from_json(json).ok().map(Bytes::from),
        MediaType::Protobuf => to_protobuf(json),
    }
}

/// Returns the object as protobuf, in its `k8s\0` envelope.
pub fn to_protobuf(json: &[u8]) -> Option<Bytes> {
    let (kind, message) = message(json)?;
    Some(kind.answer(&message))
}

/// Returns a watch event with the object, as protobuf.
pub fn protobuf_frame(event: EventType, json: &[u8]) -> Option<Bytes> {
    let (kind, message) = message(json)?;
    Some(kind.watch_frame(event, &message))
}

/// Returns the JSON of an object in protobuf.
pub fn from_protobuf(body: &[u8]) -> Option<Bytes> {
    let answer = Answer::parse(body)?;
    let described = Schema::builtin().kind(answer.api_version, answer.kind)?;
    let mut item = Vec::new();
    transcode::to_json(described, answer.message, &mut item).ok()?;
    Some(with_type(answer.api_version, answer.kind, &item))
}

/// Returns the type and the message of an object. For compatibility with
/// release 1.1, some discovery documents have no apiVersion
/// (`stripVersionEncoder`); their message is that of v1.
fn message(json: &[u8]) -> Option<(Type, Vec<u8>)> {
    let json = json.trim_ascii();
    let kind = scan::text_at(json, &["kind"])?;
    let api_version = scan::text_at(json, &["apiVersion"]).unwrap_or_default();
    let of = match &*api_version {
        "" => "v1",
        named => named,
    };
    let described = Schema::builtin().kind(of, &kind)?;
    let mut message = Vec::new();
    transcode::to_protobuf(described, json, &mut message).ok()?;
    Some((Type::new(&api_version, &kind), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str =
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"x":"1"}}"#;

    #[test]
    fn every_encoding_holds_the_same_object() {
        let json = Bytes::from(format!("{MAP}\n"));
        let encoded = |media_type, indented| encode(&json, media_type, indented).unwrap();
        assert_eq!(encoded(MediaType::Json, false), json);
        assert!(encoded(MediaType::Json, true).starts_with(b"{\n  \"kind\": \"ConfigMap\","));
        assert!(encoded(MediaType::Yaml, true).starts_with(b"apiVersion: v1\ndata:\n"));
        let protobuf = encoded(MediaType::Protobuf, true);
        assert_eq!(from_protobuf(&protobuf).unwrap(), MAP);
        let frame = protobuf_frame(EventType::Added, MAP.as_bytes()).unwrap();
        assert!(frame.windows(protobuf.len()).any(|w| w == protobuf));
    }

    #[test]
    fn only_what_the_schema_names_is_protobuf() {
        let api_versions =
            br#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}"#;
        assert!(to_protobuf(api_versions).is_some());
        for json in [
            "{}",
            r#"{"kind":"Widget","apiVersion":"example.com/v1"}"#,
            r#"{"kind":"ConfigMap","apiVersion":"v1","other":1}"#,
        ] {
            assert_eq!(to_protobuf(json.as_bytes()), None, "{json}");
        }
        assert_eq!(from_protobuf(b"k8s\0"), None);
    }
}
