//! A document in every encoding. Each encoding is made at its first request, and
//! kept as long as the document.

use std::sync::OnceLock;

use bytes::Bytes;
use kubernetes_wire::negotiation::MediaType;
use kubernetes_wire::representation::{deflate, whole};

/// The size in bytes above which kube-apiserver compresses an answer.
const COMPRESSED_ABOVE: usize = 128 << 10;

#[derive(Debug, Default)]
struct Encoded {
    /// `None` if the document has no exact form in this encoding.
    plain: OnceLock<Option<Bytes>>,
    /// `None` if the body is small, or could not be compressed.
    gzip: OnceLock<Option<Bytes>>,
}

#[derive(Debug)]
pub struct EncodedDocument {
    json: Bytes,
    /// The ETag with its quotes.
    etag: Option<String>,
    encoded: [Encoded; 4],
}

impl EncodedDocument {
    /// `json` is written as Go writes it, with a newline at its end.
    pub(super) fn new(json: Bytes, etag: Option<String>) -> Self {
        Self {
            json,
            etag,
            encoded: Default::default(),
        }
    }

    /// Returns the ETag with its quotes; plain documents have none.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// Returns the size as JSON, in bytes.
    pub fn size(&self) -> usize {
        self.json.len()
    }

    /// Tells whether [`EncodedDocument::body`] and [`EncodedDocument::gzip`] have
    /// their results already.
    pub fn is_ready(&self, media_type: MediaType, pretty: bool, gzip: bool) -> bool {
        let encoded = self.encoded(media_type, pretty);
        encoded.plain.get().is_some() && (!gzip || encoded.gzip.get().is_some())
    }

    /// Returns the encoded document, or `None` if upstream's encoding cannot be
    /// reproduced exactly.
    pub fn body(&self, media_type: MediaType, pretty: bool) -> Option<Bytes> {
        let encoded = self.encoded(media_type, pretty);
        let make = || whole::encode(&self.json, media_type, pretty);
        encoded.plain.get_or_init(make).clone()
    }

    /// Returns the compressed body, or `None` if the body is sent uncompressed.
    pub fn gzip(&self, media_type: MediaType, pretty: bool) -> Option<Bytes> {
        let body = self.body(media_type, pretty)?;
        let make = || {
            if body.len() <= COMPRESSED_ABOVE {
                return None;
            }
            deflate::gzip(&[body]).map(Bytes::from)
        };
        let encoded = self.encoded(media_type, pretty);
        encoded.gzip.get_or_init(make).clone()
    }

    fn encoded(&self, media_type: MediaType, pretty: bool) -> &Encoded {
        let [json, indented, yaml, protobuf] = &self.encoded;
        match media_type {
            MediaType::Json if pretty => indented,
            MediaType::Json => json,
            MediaType::Yaml => yaml,
            MediaType::Protobuf => protobuf,
        }
    }
}
