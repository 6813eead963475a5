//! Protobuf to JSON. Protobuf orders fields by their numbers, JSON by their order
//! in the Go struct. So the fields of each message are first found, then written.

mod fields;
mod filter;
mod map;
mod special_forms;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use self::fields::{Slot, find_fields, ones, skip, slice};
pub(super) use self::filter::All;
use self::filter::Filter;
use self::special_forms::moment;
use super::NotTranscodable::{TooDeep, TooLarge, UnknownField, Unsupported};
use super::wire::{self, Reader};
use super::{MAX_DEPTH, Result, close, number, text};
use crate::schema::{Field, Form, Kind, Message, Schema, Shape};

/// Appends the JSON of a message. `added` are the members that protobuf has no field
/// for, as in [`Field::added`].
pub(super) fn write<F: Filter>(
    schema: &Schema,
    message: &Message,
    protobuf: &[u8],
    added: &[u8],
    filter: F,
    out: &mut Vec<u8>,
) -> Result {
    // Slots hold positions in the message as 32 bits.
    if u32::try_from(protobuf.len()).is_err() {
        return Err(TooLarge);
    }
    let slots = Vec::with_capacity(FIRST_SLOTS);
    let mut writer = Writer { schema, slots, out };
    writer.message(message, protobuf, added, LEVELS, filter)
}

/// The levels of messages: the whole message and those inside it.
const LEVELS: usize = MAX_DEPTH.saturating_add(1);

/// Enough slots for the fields of a Pod and of all messages around one of its
/// fields.
const FIRST_SLOTS: usize = 256;

struct Writer<'a> {
    schema: &'a Schema,
    /// The slots of the message that is being written, after those of all messages
    /// around it.
    slots: Vec<Slot>,
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Writes a value that is a message. `room` is the number of levels of messages
    /// that it may have, itself included.
    fn message<F: Filter>(
        &mut self,
        message: &Message,
        bytes: &[u8],
        added: &[u8],
        room: usize,
        filter: F,
    ) -> Result {
        let room = room.checked_sub(1).ok_or(TooDeep)?;
        match message.form() {
            Form::Object => {
                self.out.push(b'{');
                filter.write_added(added, self.out);
                self.members(message, bytes, room, filter)?;
                self.close(b'}');
                Ok(())
            }
            form => self.special(form, bytes, room, filter),
        }
    }

    /// Ends an object or array, each of whose elements ends with a comma.
    #[inline]
    fn close(&mut self, bracket: u8) {
        close(bracket, self.out);
    }

    /// Writes the members of an object, each with a comma after it.
    fn members<F: Filter>(
        &mut self,
        message: &Message,
        bytes: &[u8],
        room: usize,
        filter: F,
    ) -> Result {
        let base = self.slots.len();
        let fields = message.fields();
        let end = base.saturating_add(fields.len());
        self.slots.resize(end, Slot::default());
        let slots = self.slots.get_mut(base..).unwrap_or_default();
        let set = find_fields(message, bytes, slots)?;
        for at in ones((set | message.written_unset()) & filter.fields(message)) {
            let field = fields.get(at).ok_or(UnknownField)?;
            let Some(filter) = filter.of_field(field) else {
                continue;
            };
            if set >> at & 1 == 1 {
                let slot = self.slots.get(base.saturating_add(at));
                let slot = slot.copied().unwrap_or_default();
                self.member(field, bytes, slot, room, filter)?;
            } else {
                self.unset(field, room, filter)?;
            }
        }
        self.slots.truncate(base);
        Ok(())
    }

    fn member<F: Filter>(
        &mut self,
        field: &Field,
        bytes: &[u8],
        slot: Slot,
        room: usize,
        filter: F,
    ) -> Result {
        let mut reader = Reader::within(bytes, slot.start, slot.end)?;
        match field.shape {
            Shape::One | Shape::Optional => match field.kind {
                Kind::String => {
                    let content = slice(bytes, slot)?;
                    if field.omits_zero() && content.is_empty() {
                        return Ok(());
                    }
                    self.key(field);
                    text::write(content, self.out);
                }
                Kind::Message(of) => {
                    let content = slice(bytes, slot)?;
                    if field.omit_zero && moment(content, false)?.is_zero() {
                        return Ok(());
                    }
                    let of = self.message_at(of)?;
                    self.key(field);
                    self.message(of, content, &field.added, room, filter)?;
                }
                Kind::Bytes => {
                    let content = slice(bytes, slot)?;
                    if field.omit_empty && content.is_empty() {
                        return Ok(());
                    }
                    self.key(field);
                    self.base64(content);
                }
                kind => {
                    let value = match kind {
                        Kind::Double => reader.fixed64()?,
                        _ => reader.varint()?,
                    };
                    if field.omits_zero() && is_zero(kind, value) {
                        return Ok(());
                    }
                    self.key(field);
                    self.scalar(kind, value)?;
                }
            },
            Shape::List => {
                self.key(field);
                self.out.push(b'[');
                while !reader.is_at_end() {
                    self.element(field, &mut reader, room, filter)?;
                }
                self.close(b']');
            }
            Shape::Map => {
                self.key(field);
                self.map(field, reader, room, filter)?;
            }
            Shape::Inline => {
                let Kind::Message(of) = field.kind else {
                    return Err(Unsupported);
                };
                let of = self.message_at(of)?;
                let room = room.checked_sub(1).ok_or(TooDeep)?;
                return self.members(of, slice(bytes, slot)?, room, filter);
            }
        }
        self.out.push(b',');
        Ok(())
    }

    /// Writes a field that is not set but not left out: its zero value in Go.
    fn unset<F: Filter>(&mut self, field: &Field, room: usize, filter: F) -> Result {
        let Kind::Message(of) = field.kind else {
            self.key(field);
            let zero: &[u8] = match (field.shape, field.kind) {
                (Shape::One, Kind::Bool) => b"false",
                (Shape::One, Kind::String) => b"\"\"",
                (Shape::One, Kind::Int32 | Kind::Int64 | Kind::Double) => b"0",
                _ => b"null",
            };
            self.out.extend_from_slice(zero);
            self.out.push(b',');
            return Ok(());
        };
        match field.shape {
            Shape::Inline => {
                let of = self.message_at(of)?;
                return self.members(of, &[], room.saturating_sub(1), filter);
            }
            Shape::One => {
                let of = self.message_at(of)?;
                self.key(field);
                self.message(of, &[], &field.added, room, filter)?;
            }
            _ => {
                self.key(field);
                self.out.extend_from_slice(b"null");
            }
        }
        self.out.push(b',');
        Ok(())
    }

    #[inline]
    fn key(&mut self, field: &Field) {
        self.out.extend_from_slice(&field.key);
    }

    fn message_at(&self, id: u16) -> Result<&'a Message> {
        self.schema.message_at(id).ok_or(Unsupported)
    }

    /// Writes the next field, with a comma, if it is an element of the list. Skips
    /// any other field, since it has its own slot.
    fn element<F: Filter>(
        &mut self,
        field: &Field,
        reader: &mut Reader<'_>,
        room: usize,
        filter: F,
    ) -> Result {
        let tag = reader.varint()?;
        if tag != field.tag() {
            return skip(tag, reader);
        }
        match field.kind {
            Kind::String => text::write(reader.content()?, self.out),
            Kind::Bytes => {
                let content = reader.content()?;
                self.base64(content);
            }
            Kind::Message(of) => {
                let (of, content) = (self.message_at(of)?, reader.content()?);
                self.message(of, content, &field.added, room, filter)?;
            }
            kind => {
                let value = match kind {
                    Kind::Double => reader.fixed64()?,
                    _ => reader.varint()?,
                };
                self.scalar(kind, value)?;
            }
        }
        self.out.push(b',');
        Ok(())
    }

    fn scalar(&mut self, kind: Kind, value: u64) -> Result {
        match kind {
            Kind::Bool if value != 0 => self.out.extend_from_slice(b"true"),
            Kind::Bool => self.out.extend_from_slice(b"false"),
            Kind::Int32 => number::write_integer(wire::int32(value).into(), self.out),
            Kind::Int64 => number::write_integer(value as i64, self.out),
            Kind::Double => number::write_double(f64::from_bits(value), self.out)?,
            Kind::String | Kind::Bytes | Kind::Message(_) => return Err(Unsupported),
        }
        Ok(())
    }

    fn base64(&mut self, content: &[u8]) {
        self.out.push(b'"');
        let start = self.out.len();
        let length = content.len().div_ceil(3).saturating_mul(4);
        self.out.resize(start.saturating_add(length), 0);
        let room = self.out.get_mut(start..).unwrap_or_default();
        // The line above made enough room for the content.
        let written = STANDARD.encode_slice(content, room).unwrap_or_default();
        self.out.truncate(start.saturating_add(written));
        self.out.push(b'"');
    }
}

trait OmitsZero {
    /// Tells whether JSON leaves out the field's zero value, which it never does
    /// for a pointer.
    fn omits_zero(&self) -> bool;
}

impl OmitsZero for Field {
    fn omits_zero(&self) -> bool {
        self.omit_empty && self.shape == Shape::One
    }
}

fn is_zero(kind: Kind, value: u64) -> bool {
    match kind {
        Kind::Int32 => wire::int32(value) == 0,
        _ => value == 0,
    }
}
