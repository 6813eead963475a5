//! An object's bytes in one encoding made from those in another.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::transcode::{self, NotTranscodable};
use super::{Envelope, Form};
use crate::api::protobuf_wire::put_prefix;
use crate::schema::{Message, Schema};

/// How objects are written. What stands in a list is JSON, or the message
/// without the `k8s\0` envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    Json,
    Protobuf,
}

/// `items` of every list message.
const ITEMS: u8 = 2;

/// Bytes that stand before an item of a list, at most.
pub const ITEM_PREFIX_MAX: usize = 11;

impl Encoding {
    pub const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

    /// What stands before each item of a list, but before the first one in
    /// JSON.
    pub fn put_item_prefix(self, length: usize, out: &mut BytesMut) {
        match self {
            Self::Json => out.put_u8(b','),
            Self::Protobuf => put_prefix(ITEMS, length, out),
        }
    }
}

/// The object cannot be written in the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEncodable {
    #[error("its kind is not built in")]
    UnknownKind,
    #[error(transparent)]
    Transcode(#[from] NotTranscodable),
}

/// What the schema knows of a kind; nothing, of a kind that is not built in.
#[derive(Clone, Copy)]
pub struct Described(Option<&'static Message>);

impl Described {
    pub fn new(form: Form, api_version: &str, kind: &str) -> Self {
        let message = match form {
            Form::Struct => Schema::builtin().kind(api_version, kind),
            Form::Map => None,
        };
        Self(message)
    }

    pub fn message(self) -> Option<&'static Message> {
        self.0
    }
}

impl fmt::Debug for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Described").field(&self.0.is_some()).finish()
    }
}

/// It follows from form, apiVersion and kind.
impl PartialEq for Described {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Described {}

impl Envelope {
    /// Whether objects can be had in the encoding, as far as their kind
    /// decides.
    pub fn writes(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Json || self.described.message().is_some()
    }

    /// A list item in the other of the two encodings.
    pub fn transcoded(&self, item: &[u8], to: Encoding) -> Result<Bytes, NotEncodable> {
        let mut out = Vec::new();
        self.transcode(item, to, &mut out)?;
        // What was reserved in excess would stay as long as the object.
        out.shrink_to_fit();
        Ok(out.into())
    }

    /// The same, appended.
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
