//! Converts an object's bytes from one encoding to another.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::transcode::{self, NotTranscodable};
use super::{Envelope, Form};
use crate::api::protobuf_wire::put_prefix;
use crate::negotiation::MediaType;
use crate::schema::{Message, Schema};

/// The encoding of objects. A list item is JSON, or the protobuf message
/// without the `k8s\0` envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// JSON as Go writes it: compact, and with `<`, `>` and `&` escaped.
    Json,
    /// Protobuf, which only built-in kinds have.
    Protobuf,
}

/// The field number of `items` in every list message.
const ITEMS_FIELD: u8 = 2;

/// The most bytes before an item of a list.
pub const ITEM_PREFIX_MAX: usize = 11;

/// The encoding that a body of the media type is made of: YAML is made of JSON.
impl From<MediaType> for Encoding {
    fn from(media_type: MediaType) -> Self {
        match media_type {
            MediaType::Json | MediaType::Yaml => Self::Json,
            MediaType::Protobuf => Self::Protobuf,
        }
    }
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

    /// Writes the bytes before an item of a list. In JSON, the first item has
    /// none.
    pub fn put_item_prefix(self, length: usize, out: &mut BytesMut) {
        match self {
            Self::Json => out.put_u8(b','),
            Self::Protobuf => put_prefix(ITEMS_FIELD, length, out),
        }
    }
}

/// The reason why the object cannot be written in the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotEncodable {
    /// The schema has no message for the kind.
    #[error("its kind is not built in")]
    UnknownKind,
    /// The bytes of the object cannot be converted.
    #[error(transparent)]
    Transcode(#[from] NotTranscodable),
}

/// The message of a kind in the schema, or nothing for a kind that is not built
/// in.
#[derive(Clone, Copy)]
pub(crate) struct Described(Option<&'static Message>);

impl Described {
    pub(crate) fn new(form: Form, api_version: &str, kind: &str) -> Self {
        let message = match form {
            Form::Struct => Schema::builtin().kind(api_version, kind),
            Form::Map => None,
        };
        Self(message)
    }

    pub(crate) fn message(self) -> Option<&'static Message> {
        self.0
    }
}

impl fmt::Debug for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Described").field(&self.0.is_some()).finish()
    }
}

/// Always equal: it follows from form, apiVersion and kind, which are compared
/// anyway.
impl PartialEq for Described {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Described {}

impl Envelope {
    /// Tells whether objects of this kind exist in the encoding.
    pub fn writes(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Json || self.described.message().is_some()
    }

    /// Converts a list item to the encoding `to` from the other one.
    pub fn transcoded(&self, item: &[u8], to: Encoding) -> Result<Bytes, NotEncodable> {
        let mut out = Vec::new();
        self.transcode(item, to, &mut out)?;
        // Unused capacity would be kept as long as the object.
        out.shrink_to_fit();
        Ok(out.into())
    }

    /// Like [`Envelope::transcoded`], but appends to `out`.
    pub fn transcode(
        &self,
        item: &[u8],
        to: Encoding,
        out: &mut Vec<u8>,
    ) -> Result<(), NotEncodable> {
        let message = self.described.message();
        let message = message.ok_or(NotEncodable::UnknownKind)?;
        match to {
            Encoding::Json => transcode::to_json(message, item, out)?,
            Encoding::Protobuf => transcode::to_protobuf(message, item, out)?,
        }
        Ok(())
    }
}
