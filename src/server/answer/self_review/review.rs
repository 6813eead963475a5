//! Upstream's answer to a SelfSubjectAccessReview.

use std::fmt::Write;

use bytes::{BufMut, Bytes, BytesMut};
use kubernetes_wire::api::protobuf_wire::{Fields, Value, put_bytes};
use kubernetes_wire::negotiation::MediaType;
use kubernetes_wire::representation::protobuf_envelope::{Answer, Type};
use kubernetes_wire::representation::scan;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::question::{Object, Spec, json_of};
use crate::authz::Decision;

/// Upstream's decision, and the question that it is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Review {
    /// The question as upstream understood it. `None` if it is not understood here.
    pub(super) spec: Option<Spec>,
    pub(super) decision: Decision,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Status<'a> {
    allowed: bool,
    #[serde(default)]
    denied: bool,
    #[expect(dead_code, reason = "it is passed on as it is")]
    reason: Option<IgnoredAny>,
    #[serde(borrow)]
    evaluation_error: Option<&'a RawValue>,
}

/// An answer of which only the status is read.
#[derive(Deserialize)]
struct Answered<'a> {
    #[serde(borrow)]
    status: &'a RawValue,
}

/// Returns the encoding of upstream's answer. Returns `None` if it has a parameter,
/// or an encoding that is not read here.
pub(super) fn media_type(content_type: &[u8]) -> Option<MediaType> {
    [MediaType::Json, MediaType::Protobuf]
        .into_iter()
        .find(|media_type| media_type.as_str().as_bytes() == content_type)
}

/// Tells whether the bytes are a whole answer. A line end may follow.
pub(super) fn is_whole(media_type: MediaType, body: &[u8]) -> bool {
    match media_type {
        MediaType::Json => serde_json::from_slice::<IgnoredAny>(body).is_ok(),
        // Go also writes the last field, which is empty.
        MediaType::Protobuf => Answer::parse(body).is_some() && body.ends_with(&[4 << 3 | 2, 0]),
        MediaType::Yaml => false,
    }
}

pub(super) fn read(media_type: MediaType, body: &[u8]) -> Option<Review> {
    let json;
    let body = match media_type {
        MediaType::Protobuf => {
            json = json_of(body)?;
            &json
        }
        MediaType::Json | MediaType::Yaml => body,
    };
    let answered: Answered<'_> = serde_json::from_slice(body).ok()?;
    let status: Status<'_> = serde_json::from_str(answered.status.get()).ok()?;
    let decision = match (status.allowed, status.denied) {
        (true, true) => return None,
        (true, false) => Decision::Allow,
        (false, true) => Decision::Deny,
        (false, false) => Decision::NoOpinion,
    };
    Some(Review {
        spec: Object::parse(body).map(|object| object.spec),
        decision,
    })
}

/// Returns upstream's answer with `allowed: true` for this reason, and everything
/// else unchanged. Returns `None` if it has anything that is not understood here.
pub(super) fn allowed(media_type: MediaType, body: &Bytes, reason: &str) -> Option<Bytes> {
    match media_type {
        MediaType::Json => allowed_json(body, reason),
        MediaType::Protobuf => allowed_protobuf(body, reason),
        MediaType::Yaml => None,
    }
}

fn allowed_json(body: &[u8], reason: &str) -> Option<Bytes> {
    let span = scan::find(body, &["status"])?;
    let (before, after) = (body.get(..span.start)?, body.get(span.end..)?);
    let before_text = body.get(span)?;
    let status: Status<'_> = serde_json::from_slice(before_text).ok()?;
    // Upstream indents its answers to browsers and some other clients.
    let (line, end, colon) = match before_text.contains(&b'\n') {
        true => ("\n    ", "\n  ", ": "),
        false => ("", "", ":"),
    };
    let reason = serde_json::to_string(reason).ok()?;
    let mut text = format!("{{{line}\"allowed\"{colon}true,{line}\"reason\"{colon}{reason}");
    if let Some(error) = status.evaluation_error {
        let _ = write!(text, ",{line}\"evaluationError\"{colon}{}", error.get());
    }
    text.push_str(end);
    text.push('}');
    Some([before, text.as_bytes(), after].concat().into())
}

fn allowed_protobuf(body: &[u8], reason: &str) -> Option<Bytes> {
    let whole = Answer::parse(body)?;
    let mut message = BytesMut::new();
    for field in Fields::new(whole.message) {
        match field.ok()? {
            (3, Value::Bytes(status)) => {
                put_bytes(3, &allowed_status(status, reason)?, &mut message);
            }
            (number @ (1 | 2), Value::Bytes(bytes)) => {
                put_bytes(u8::try_from(number).ok()?, bytes, &mut message);
            }
            _ => return None,
        }
    }
    Some(Type::new(whole.api_version, whole.kind).answer(&message))
}

/// Go writes all four fields, in the order of their numbers.
fn allowed_status(status: &[u8], reason: &str) -> Option<BytesMut> {
    let mut out = BytesMut::new();
    for field in Fields::new(status) {
        match field.ok()? {
            (1, Value::Varint(_)) => out.put_slice(&[1 << 3, 1]),
            (2, Value::Bytes(_)) => put_bytes(2, reason.as_bytes(), &mut out),
            (3, Value::Bytes(error)) => put_bytes(3, error, &mut out),
            (4, Value::Varint(_)) => out.put_slice(&[4 << 3, 0]),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::representation::transcode;
    use kubernetes_wire::schema::Schema;

    use super::*;

    const JSON: &str = concat!(
        r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","#,
        r#""metadata":{"managedFields":[{"manager":"\"status\":{","operation":"Update"}]},"#,
        r#""spec":{"resourceAttributes":{"verb":"list","resource":"pods"}},"status":STATUS}"#,
    );

    fn json(status: &str) -> Bytes {
        format!("{}\n", JSON.replace("STATUS", status)).into()
    }

    fn protobuf(json: &[u8]) -> Bytes {
        let (api_version, kind) = ("authorization.k8s.io/v1", "SelfSubjectAccessReview");
        let of_kind = Schema::builtin().kind(api_version, kind).unwrap();
        let mut message = Vec::new();
        transcode::to_protobuf(of_kind, json, &mut message).unwrap();
        Type::new(api_version, kind).answer(&message)
    }

    #[test]
    fn decisions_are_read() {
        for (status, decision) in [
            (r#"{"allowed":true}"#, Some(Decision::Allow)),
            (
                r#"{"allowed":false,"reason":"x"}"#,
                Some(Decision::NoOpinion),
            ),
            (r#"{"allowed":false,"denied":true}"#, Some(Decision::Deny)),
            (r#"{"allowed":true,"denied":true}"#, None),
            (r#"{"allowed":false,"new":1}"#, None),
            ("{}", None),
        ] {
            let body = json(status);
            let found = read(MediaType::Json, &body);
            assert_eq!(found.as_ref().map(|found| found.decision), decision);
            if let Some(found) = found {
                assert!(found.spec.as_ref().unwrap().of_whole().is_some());
                assert_eq!(read(MediaType::Protobuf, &protobuf(&body)), Some(found));
            }
        }
        assert_eq!(read(MediaType::Json, b"{}"), None);
        assert_eq!(read(MediaType::Protobuf, b"k8s\0"), None);
    }

    #[test]
    fn only_the_status_changes() {
        for (before, after) in [
            (r#"{"allowed":false}"#, r#"{"allowed":true,"reason":"why"}"#),
            (
                r#"{"allowed":false,"denied":true,"reason":"a","evaluationError":"b\"\u003c"}"#,
                r#"{"allowed":true,"reason":"why","evaluationError":"b\"\u003c"}"#,
            ),
        ] {
            let expected = json(after);
            let changed = allowed(MediaType::Json, &json(before), "why").unwrap();
            assert_eq!(changed, expected);
            let changed = allowed(MediaType::Protobuf, &protobuf(&json(before)), "why");
            assert_eq!(changed.unwrap(), protobuf(&expected));
        }
        let pretty = "{\n  \"a\": 1,\n  \"status\": {\n    \"allowed\": false,\n    \
                      \"evaluationError\": \"b\"\n  }\n}";
        let expected = "{\n  \"a\": 1,\n  \"status\": {\n    \"allowed\": true,\n    \
                        \"reason\": \"why\",\n    \"evaluationError\": \"b\"\n  }\n}";
        let changed = allowed(MediaType::Json, &pretty.into(), "why").unwrap();
        assert_eq!(changed, expected);
        for body in [
            &b"{}"[..],
            b"{\"status\":{\"allowed\":false,\"new\":1}}",
            b"k8s\0",
        ] {
            let body = Bytes::from_static(body);
            assert_eq!(allowed(MediaType::Json, &body, "why"), None);
            assert_eq!(allowed(MediaType::Protobuf, &body, "why"), None);
        }
    }

    #[test]
    fn an_answer_is_whole_at_its_end() {
        let json = json(r#"{"allowed":true}"#);
        let protobuf = protobuf(&json);
        for (media_type, body, least) in [
            (MediaType::Json, &json, json.len() - 1),
            (MediaType::Protobuf, &protobuf, protobuf.len()),
        ] {
            for end in 0..=body.len() {
                let whole = is_whole(media_type, &body[..end]);
                assert_eq!(whole, end >= least, "{end} of {}", body.len());
            }
        }
    }

    #[test]
    fn encodings_are_those_that_are_read_here() {
        assert_eq!(media_type(b"application/json"), Some(MediaType::Json));
        for other in ["application/yaml", "application/json;as=Table", ""] {
            assert_eq!(media_type(other.as_bytes()), None);
        }
    }
}
