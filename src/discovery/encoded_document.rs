//! A document in every encoding, each made when it is first asked for and kept
//! as long as the document.

use std::sync::OnceLock;

use bytes::Bytes;
use kubernetes_wire::negotiation::MediaType;
use kubernetes_wire::representation::{deflate, whole};

/// kube-apiserver compresses answers of more bytes.
const COMPRESSED_ABOVE: usize = 128 << 10;

#[derive(Debug, Default)]
struct Encoded {
    /// `None` if there is no exact form in this encoding.
    plain: OnceLock<Option<Bytes>>,
    /// `None` if it is small, or could not be compressed.
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
    /// `json` as Go writes it, a newline at its end.
    pub(super) fn new(json: Bytes, etag: Option<String>) -> Self {
        Self {
            json,
            etag,
            encoded: Default::default(),
        }
    }

    /// The ETag with its quotes; plain documents have none.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// Bytes as JSON.
    pub fn size(&self) -> usize {
        self.json.len()
    }

    /// Whether [`EncodedDocument::body`] has nothing to do.
    pub fn is_ready(&self, media_type: MediaType, pretty: bool, gzip: bool) -> bool {
        let encoded = self.encoded(media_type, pretty);
        encoded.plain.get().is_some() && (!gzip || encoded.gzip.get().is_some())
    }

    /// `None` if it cannot be written exactly as upstream would.
    pub fn body(&self, media_type: MediaType, pretty: bool) -> Option<Bytes> {
        let encoded = self.encoded(media_type, pretty);
        let make = || whole::encode(&self.json, media_type, pretty);
        encoded.plain.get_or_init(make).clone()
    }

    /// `None` if it is sent as it is.
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
