//! Puts the members of a message together, in the order of their numbers, with
//! everything that Go writes for members that were not read.

use prost::encoding::encode_varint;

use super::super::NotTranscodable::TooLarge;
use super::super::Result;
use super::field_len;
use crate::schema::{Field, Kind, Message, Schema, Shape};

/// The place of a member's protobuf in its buffer. The place is empty for null and
/// for an empty list. Both numbers are zero if the member was not read.
#[derive(Clone, Copy, Default)]
pub(super) struct Written {
    start: u32,
    /// The end, plus one.
    end: u32,
}

impl Written {
    pub(super) fn new(start: usize, end: usize) -> Result<Self> {
        let place = |at: usize| u32::try_from(at).map_err(|_| TooLarge);
        Ok(Self {
            start: place(start)?,
            end: place(end.saturating_add(1))?,
        })
    }

    pub(super) fn is_there(self) -> bool {
        self.end != 0
    }

    fn len(self) -> usize {
        (self.end.saturating_sub(1).saturating_sub(self.start)) as usize
    }

    fn bytes(self, buffer: &[u8]) -> &[u8] {
        let range = self.start as usize..self.end.saturating_sub(1) as usize;
        buffer.get(range).unwrap_or_default()
    }
}

/// Returns the length of a message's protobuf that has these members.
pub(super) fn length(schema: &Schema, message: &Message, members: &[Written]) -> usize {
    let mut sum = 0usize;
    for field in message.fields() {
        let length = match (field.shape, field.kind) {
            (Shape::Inline, Kind::Message(of)) => {
                let inner = inlined(schema, of, field, members);
                let inner = inner.map_or(0, |(of, members)| length(schema, of, members));
                field_len(field.tag(), inner)
            }
            _ => match members.get(field.first_member()).map_or(0, |m| m.len()) {
                0 => field.zero().len(),
                length => length,
            },
        };
        sum = sum.saturating_add(length);
    }
    sum
}

fn inlined<'a, 'm>(
    schema: &'a Schema,
    of: u16,
    field: &Field,
    members: &'m [Written],
) -> Option<(&'a Message, &'m [Written])> {
    Some((schema.message_at(of)?, members.get(field.first_member()..)?))
}

/// Writes a message with its fields in the order of their numbers. For a field that
/// was not read, it writes what Go writes for a field that is not set.
pub(super) fn assemble(
    schema: &Schema,
    message: &Message,
    members: &[Written],
    from: &[u8],
    out: &mut Vec<u8>,
) {
    for field in message.ascending() {
        if let (Shape::Inline, Kind::Message(of)) = (field.shape, field.kind) {
            let Some((of, members)) = inlined(schema, of, field, members) else {
                continue;
            };
            encode_varint(field.tag(), out);
            encode_varint(length(schema, of, members) as u64, out);
            assemble(schema, of, members, from, out);
            continue;
        }
        match members.get(field.first_member()) {
            Some(written) if written.len() > 0 => out.extend_from_slice(written.bytes(from)),
            _ => out.extend_from_slice(field.zero()),
        }
    }
}
