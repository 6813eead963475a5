//! Encodes a Status for its client: as the body of an answer, or as the event of a
//! watch.

use bytes::Bytes;

use super::json_envelope::{EventType, watch_frame};
use super::protobuf_envelope::frame_of_answer;
use super::{Encoding, pretty, yaml};
use crate::api::{Status, protobuf};
use crate::negotiation::ErrorEncoding;

/// Returns the Content-Type and the body of an error answer.
pub fn encode_status(status: &Status, encoding: ErrorEncoding) -> (&'static str, Bytes) {
    match encoding {
        ErrorEncoding::Protobuf => (encoding.content_type(), protobuf::encode_status(status)),
        ErrorEncoding::Json => (encoding.content_type(), status.to_json()),
        ErrorEncoding::Yaml => match yaml::from_json(&status.to_json()) {
            Ok(yaml) => (encoding.content_type(), yaml.into()),
            // Upstream could not write this text as YAML either. JSON is also valid
            // YAML.
            Err(yaml::NotExact) => (ErrorEncoding::Json.content_type(), status.to_json()),
        },
        ErrorEncoding::IndentedJson => (
            encoding.content_type(),
            pretty::indent(&status.to_json()).into(),
        ),
    }
}

/// Returns the frame of the ERROR event that tells why a watch ends.
pub fn watch_error(status: &Status, encoding: Encoding) -> Bytes {
    match encoding {
        Encoding::Json => watch_frame(EventType::Error, &status.to_json()),
        Encoding::Protobuf => frame_of_answer(EventType::Error, &protobuf::encode_status(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_tell_errors_as_events() {
        let status = Status::unauthorized();
        assert_eq!(
            watch_error(&status, Encoding::Json),
            r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}}"#.to_owned() + "\n"
        );
        let frame = watch_error(&status, Encoding::Protobuf);
        let answer = protobuf::encode_status(&status);
        let (length, event) = frame.split_at(4);
        assert_eq!(length, u32::try_from(event.len()).unwrap().to_be_bytes());
        assert!(event.starts_with(b"\x0a\x05ERROR\x12"), "{event:?}");
        assert!(event.ends_with(&answer), "{event:?}");
    }

    #[test]
    fn indented_errors_have_no_newline_at_the_end() {
        let (content_type, body) =
            encode_status(&Status::unauthorized(), ErrorEncoding::IndentedJson);
        assert_eq!(content_type, "application/json");
        assert_eq!(
            body,
            "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \"status\": \"Failure\",\n  \"message\": \"Unauthorized\",\n  \"reason\": \"Unauthorized\",\n  \"code\": 401\n}"
        );
    }
}
