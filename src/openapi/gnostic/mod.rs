//! Encodes OpenAPI documents in protobuf as gnostic
//! (github.com/google/gnostic-models) does. kube-apiserver answers requests for
//! `application/com.github.proto-openapi.spec.v2@v1.0+protobuf` in this
//! encoding.

mod message;
mod node;
mod v2;
mod yaml;

use node::Node;

/// Encodes a document of version 2. `None` if `json` is no JSON object.
pub(super) fn encode_v2(json: &[u8]) -> Option<Vec<u8>> {
    let document: Node = serde_json::from_slice(json).ok()?;
    matches!(document, Node::Map(_)).then(|| v2::DOCUMENT.encode(&document))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected bytes are from the Go program. The suite compares whole
    /// documents with kube-apiserver's.
    #[test]
    fn choices_and_empty_fields() {
        let json = r##"{
            "swagger": "2.0",
            "info": {"title": "", "version": "1"},
            "paths": {"/a": {"get": {
                "parameters": [
                    {"$ref": "#/parameters/p"},
                    {"name": "b", "in": "body", "schema": {}},
                    {"name": "q", "in": "query", "type": "string", "uniqueItems": true}
                ],
                "responses": {"200": {"description": "OK"}, "x-a": 1}
            }}},
            "unknown": 1
        }"##;
        let expected: &[&[u8]] = &[
            b"\x0a\x032.0",
            b"\x12\x03\x12\x011",
            b"\x42\x12\x12\x10\x0a\x0e#/parameters/p",
            b"\x42\x0f\x0a\x0d\x0a\x0b\x12\x01b\x1a\x04body\x2a\x00",
            b"\x42\x1b\x0a\x19\x12\x17\x1a\x15\x12\x05query\x22\x01q\x32\x06string\xa0\x01\x01",
        ];
        let encoded = encode_v2(json.as_bytes()).unwrap();
        for part in expected {
            let found = encoded.windows(part.len()).any(|window| window == *part);
            assert!(found, "{part:?} in {encoded:?}");
        }
        assert!(encode_v2(b"<html>").is_none());
        assert!(encode_v2(b"[]").is_none());
        // Each level is a recursive call, so a document that is too deep is refused.
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(9999), "]".repeat(9999));
        assert!(encode_v2(deep.as_bytes()).is_none());
    }
}
