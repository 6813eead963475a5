//! Built-in objects from protobuf to JSON and back, byte for byte as
//! kube-apiserver writes them, by the [`Schema`]. Both ways go through the
//! bytes once and build no object.
//!
//! Neither drops anything: a field or key that the schema does not name is
//! an error, and so is whatever Go's decoders would take in some special way
//! that no API server's answer needs (a field twice, a key in another case).
//! Whoever gets an error has another way: to ask upstream.

mod compact;
mod json;
mod number;
mod quantity;
pub mod text;
pub mod time;
mod to_json;
mod to_protobuf;
mod wire;

use crate::schema::{Message, Schema};

/// Messages inside messages, and arrays and objects inside opaque JSON. Go has
/// no bound for protobuf and 10,000 for JSON; a CustomResourceDefinition has
/// two levels per level of its schema, and the deepest known are below 60. All
/// of it takes 128 KiB of stack, and in a debug build a third of a thread's.
/// What is deeper is [`NotTranscodable::TooDeep`].
pub const MAX_DEPTH: usize = 250;

/// The bytes cannot be transcoded; what was appended until then is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTranscodable {
    /// A field that the schema does not know: of a newer release, perhaps.
    #[error("a field that is not in the schema")]
    UnknownField,
    #[error("malformed")]
    Malformed,
    /// Well-formed, but not of the field's type, or out of its range.
    #[error("a value of the wrong type")]
    WrongType,
    /// What may be there once is there twice.
    #[error("a field twice")]
    Twice,
    #[error("nested too deeply")]
    TooDeep,
    /// More than 4 GiB.
    #[error("too large")]
    TooLarge,
    /// A value that Go accepts, and we do not reproduce.
    #[error("a value whose other form is not known")]
    Unsupported,
}

type Result<T = ()> = std::result::Result<T, NotTranscodable>;

/// Appends the JSON of a protobuf message, without kind and apiVersion: as an
/// object stands in a list.
pub fn to_json(message: &Message, protobuf: &[u8], out: &mut Vec<u8>) -> Result {
    let before = out.len();
    let written = to_json::write(Schema::builtin(), message, protobuf, out);
    if written.is_err() {
        out.truncate(before);
    }
    written
}

/// Appends the protobuf of a JSON object, which may have its own kind and
/// apiVersion: protobuf has them outside of the message.
pub fn to_protobuf(message: &Message, json: &[u8], out: &mut Vec<u8>) -> Result {
    let before = out.len();
    let written = to_protobuf::write(Schema::builtin(), message, json, out);
    if written.is_err() {
        out.truncate(before);
    }
    written
}

#[cfg(test)]
mod tests;
