//! Converts built-in objects between protobuf and JSON, byte for byte as
//! kube-apiserver writes them, according to the [`Schema`]. Both directions read
//! the bytes once and build no object.
//!
//! Nothing is dropped. A field or key that the schema does not name is an error. So
//! is input that Go's decoders treat specially and that no API server's answer
//! needs (a field twice, a key in another case). A caller that gets an error can
//! ask the API server instead.

mod compact;
pub(super) mod json;
mod number;
mod quantity;
pub mod text;
pub mod time;
mod to_json;
mod to_protobuf;
mod wire;

use super::Projection;
use crate::schema::{Message, Schema};

/// The deepest nesting of messages in messages, and of arrays and objects in opaque
/// JSON. Go has no limit for protobuf, and 10,000 for JSON. A
/// CustomResourceDefinition has two levels per level of its schema, and the deepest
/// known are below 60. At this depth, transcoding takes 128 KiB of stack, and in a
/// debug build a third of a thread's stack. Deeper input is
/// [`NotTranscodable::TooDeep`].
pub const MAX_DEPTH: usize = 250;

/// Why the bytes cannot be transcoded. The output is then left unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTranscodable {
    /// A field that the schema does not name. It may come from a newer release.
    #[error("a field that is not in the schema")]
    UnknownField,
    /// The input is not protobuf, or not JSON.
    #[error("malformed")]
    Malformed,
    /// A well-formed value of another type than the field's, or out of its range.
    #[error("a value of the wrong type")]
    WrongType,
    /// A field that occurs twice and may occur only once.
    #[error("a field twice")]
    Twice,
    /// The input is nested deeper than [`MAX_DEPTH`].
    #[error("nested too deeply")]
    TooDeep,
    /// The input has more than 4 GiB.
    #[error("too large")]
    TooLarge,
    /// A value that Go accepts, but whose other form is not known here.
    #[error("a value whose other form is not known")]
    Unsupported,
}

pub(super) type Result<T = ()> = std::result::Result<T, NotTranscodable>;

/// Appends the JSON of a protobuf message, without kind and apiVersion, as in a
/// list item.
pub fn to_json(message: &Message, protobuf: &[u8], out: &mut Vec<u8>) -> Result {
    let before = out.len();
    let schema = Schema::builtin();
    let written = to_json::write(schema, message, protobuf, b"", to_json::All, out);
    if written.is_err() {
        out.truncate(before);
    }
    written
}

/// Appends the wanted parts of the JSON of a protobuf message. `added` are members
/// that come before those of the message: each one with a comma after it.
pub(super) fn to_projected_json(
    message: &Message,
    protobuf: &[u8],
    added: &[u8],
    projection: &Projection,
    out: &mut Vec<u8>,
) -> Result {
    let schema = Schema::builtin();
    if projection.is_whole() {
        to_json::write(schema, message, protobuf, added, to_json::All, out)
    } else {
        to_json::write(schema, message, protobuf, added, projection, out)
    }
}

/// Appends the protobuf of a JSON object. The object may have kind and apiVersion.
/// Protobuf has these outside the message.
pub fn to_protobuf(message: &Message, json: &[u8], out: &mut Vec<u8>) -> Result {
    let before = out.len();
    let written = to_protobuf::write(Schema::builtin(), message, json, out);
    if written.is_err() {
        out.truncate(before);
    }
    written
}

/// Ends an object or array, each of whose elements ends with a comma.
#[inline]
pub(super) fn close(bracket: u8, out: &mut Vec<u8>) {
    match out.last_mut() {
        Some(last) if *last == b',' => *last = bracket,
        _ => out.push(bracket),
    }
}

#[cfg(test)]
mod tests;
