//! Encodes a Status for its client.

use bytes::Bytes;

use super::{pretty, yaml};
use crate::api::{Status, protobuf};
use crate::negotiation::ErrorEncoding;

/// Returns the Content-Type and the body of an error answer.
pub fn encode_status(status: &Status, encoding: ErrorEncoding) -> (&'static str, Bytes) {
    match encoding {
        ErrorEncoding::Protobuf => (encoding.content_type(), protobuf::encode_status(status)),
        ErrorEncoding::Json => (encoding.content_type(), status.to_json()),
        ErrorEncoding::Yaml => match yaml::from_json(&status.to_json()) {
            Ok(yaml) => (encoding.content_type(), yaml.into()),
            // Upstream could not write such a text as YAML either. JSON is also
            // valid YAML.
            Err(yaml::NotExact) => (ErrorEncoding::Json.content_type(), status.to_json()),
        },
        ErrorEncoding::IndentedJson => (
            encoding.content_type(),
            pretty::indent(&status.to_json()).into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
