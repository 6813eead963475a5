//! The protobuf encoding of a [`Status`], in its `k8s\0` envelope
//! (`runtime.Unknown`). The field numbers are those of k8s.io/apimachinery
//! `generated.proto`.

use bytes::Bytes;
use prost::Message;

use super::status::{Cause, Details};
use super::{Reason, Status};

/// The first bytes of every protobuf object of the API.
pub const MAGIC: &[u8; 4] = b"k8s\0";

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, optional, tag = "1")]
    api_version: Option<String>,
    #[prost(string, optional, tag = "2")]
    kind: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", optional, tag = "2")]
    raw: Option<Vec<u8>>,
    #[prost(string, optional, tag = "3")]
    content_encoding: Option<String>,
    #[prost(string, optional, tag = "4")]
    content_type: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ListMetaMessage {
    #[prost(string, optional, tag = "1")]
    self_link: Option<String>,
    #[prost(string, optional, tag = "2")]
    resource_version: Option<String>,
    #[prost(string, optional, tag = "3")]
    continue_token: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct CauseMessage {
    #[prost(string, optional, tag = "1")]
    reason: Option<String>,
    #[prost(string, optional, tag = "2")]
    message: Option<String>,
    #[prost(string, optional, tag = "3")]
    field: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct DetailsMessage {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    group: Option<String>,
    #[prost(string, optional, tag = "3")]
    kind: Option<String>,
    #[prost(message, repeated, tag = "4")]
    causes: Vec<CauseMessage>,
    #[prost(int32, optional, tag = "5")]
    retry_after_seconds: Option<i32>,
    #[prost(string, optional, tag = "6")]
    uid: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct StatusMessage {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMetaMessage>,
    #[prost(string, optional, tag = "2")]
    status: Option<String>,
    #[prost(string, optional, tag = "3")]
    message: Option<String>,
    #[prost(string, optional, tag = "4")]
    reason: Option<String>,
    #[prost(message, optional, tag = "5")]
    details: Option<DetailsMessage>,
    #[prost(int32, optional, tag = "6")]
    code: Option<i32>,
}

/// Encodes a Status as `application/vnd.kubernetes.protobuf`. Go's generated
/// code writes every non-pointer field, including the empty ones.
pub fn encode_status(status: &Status) -> Bytes {
    let text = |s: &str| Some(s.to_owned());
    let message = StatusMessage {
        metadata: Some(ListMetaMessage {
            self_link: text(""),
            resource_version: text(""),
            continue_token: text(&status.metadata.continue_token),
        }),
        status: text(status.status),
        message: text(&status.message),
        reason: text(status.reason.as_str()),
        details: status.details.as_ref().map(|d| DetailsMessage {
            name: text(&d.name),
            group: text(&d.group),
            kind: text(&d.kind),
            causes: d
                .causes
                .iter()
                .map(|c| CauseMessage {
                    reason: text(&c.reason),
                    message: text(&c.message),
                    field: text(&c.field),
                })
                .collect(),
            retry_after_seconds: Some(d.retry_after_seconds.try_into().unwrap_or(i32::MAX)),
            uid: text(&d.uid),
        }),
        code: Some(status.code.into()),
    };
    let envelope = Unknown {
        type_meta: Some(TypeMeta {
            api_version: text(status.api_version),
            kind: text(status.kind),
        }),
        raw: Some(message.encode_to_vec()),
        content_encoding: text(""),
        content_type: text(""),
    };
    let mut out = MAGIC.to_vec();
    out.extend(envelope.encode_to_vec());
    out.into()
}

/// Decodes a failure from a server. The result is `None` if it is not a Status,
/// or has an unknown reason.
pub fn decode_status(body: &[u8]) -> Option<Status> {
    let envelope = Unknown::decode(body.strip_prefix(MAGIC)?).ok()?;
    if envelope.type_meta?.kind? != "Status" {
        return None;
    }
    let message = StatusMessage::decode(envelope.raw?.as_slice()).ok()?;
    let code = u16::try_from(message.code?).ok()?;
    let reason = Reason::parse(&message.reason.unwrap_or_default())?;
    let details = message.details.map(|d| {
        let causes = d.causes.into_iter().map(|c| Cause {
            reason: c.reason.unwrap_or_default(),
            message: c.message.unwrap_or_default(),
            field: c.field.unwrap_or_default(),
        });
        Box::new(Details {
            name: d.name.unwrap_or_default(),
            group: d.group.unwrap_or_default(),
            kind: d.kind.unwrap_or_default(),
            uid: d.uid.unwrap_or_default(),
            causes: causes.collect(),
            retry_after_seconds: d
                .retry_after_seconds
                .and_then(|seconds| seconds.try_into().ok())
                .unwrap_or_default(),
        })
    });
    let text = message.message.unwrap_or_default();
    Some(Status {
        details,
        ..Status::failure(code, reason, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_round_trips_through_the_envelope() {
        let bytes = encode_status(&Status::unauthorized());
        assert_eq!(&bytes[..4], MAGIC);
        let envelope = Unknown::decode(&bytes[4..]).unwrap();
        let status = StatusMessage::decode(envelope.raw.unwrap().as_slice()).unwrap();
        assert_eq!(status.code, Some(401));
        assert_eq!(status.reason.as_deref(), Some("Unauthorized"));
    }

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let pods = crate::api::GroupVersionResource::new("", "v1", "pods").group_resource();
        for status in [
            Status::unauthorized(),
            Status::not_found(&pods, "a"),
            Status::internal_error("x"),
            Status::service_unavailable("x").with_retry_after(3),
        ] {
            let json = serde_json::to_vec(&status).unwrap();
            assert_eq!(Status::from_json(&json).as_ref(), Some(&status));
            assert_eq!(decode_status(&encode_status(&status)), Some(status));
        }
        assert_eq!(decode_status(b"k8s\0"), None);
        assert_eq!(Status::from_json(b"{\"kind\":\"Pod\"}"), None);
    }
}
