//! Protobuf to JSON. Protobuf's order is that of numbers, JSON's that of the
//! Go struct: of each message the fields are first found, then written.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::NotTranscodable::{
    self, Malformed, TooDeep, TooLarge, Twice, UnknownField, Unsupported, WrongType,
};
use super::time::Moment;
use super::wire::{self, Reader, Small, read_small};
use super::{MAX_DEPTH, Result, compact, number, quantity, text};
use crate::schema::{Field, Form, Kind, Message, Schema, Shape};

pub fn write(schema: &Schema, message: &Message, protobuf: &[u8], out: &mut Vec<u8>) -> Result {
    // Places in it are kept as 32 bits.
    if u32::try_from(protobuf.len()).is_err() {
        return Err(TooLarge);
    }
    let slots = Vec::with_capacity(FIRST_SLOTS);
    Writer { schema, slots, out }.message(message, protobuf, b"", LEVELS)
}

/// The whole, and messages inside of it.
const LEVELS: usize = MAX_DEPTH.saturating_add(1);

/// Places for the fields of a Pod and all the messages around one of its.
const FIRST_SLOTS: usize = 256;

/// Where a field's value is in its message; of a repeated field, from its
/// first key to the end of its last value.
#[derive(Clone, Copy, Default)]
struct Slot {
    start: u32,
    end: u32,
}

struct Writer<'a> {
    schema: &'a Schema,
    /// Those of all messages around the one that is written, and its own.
    slots: Vec<Slot>,
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Writes a value that is a message. There is room for so many levels of
    /// messages: itself and what is inside of it.
    fn message(&mut self, message: &Message, bytes: &[u8], added: &[u8], room: usize) -> Result {
        let room = room.checked_sub(1).ok_or(TooDeep)?;
        match message.form() {
            Form::Object => {
                self.out.push(b'{');
                self.out.extend_from_slice(added);
                self.members(message, bytes, room)?;
                self.close(b'}');
                Ok(())
            }
            form => self.special(form, bytes, room),
        }
    }

    /// Ends an object or array, each of whose elements ends with a comma.
    #[inline]
    fn close(&mut self, bracket: u8) {
        match self.out.last_mut() {
            Some(last) if *last == b',' => *last = bracket,
            _ => self.out.push(bracket),
        }
    }

    /// Writes the members of an object, each with a comma after it.
    fn members(&mut self, message: &Message, bytes: &[u8], room: usize) -> Result {
        let base = self.slots.len();
        let fields = message.fields();
        let end = base.saturating_add(fields.len());
        self.slots.resize(end, Slot::default());
        let slots = self.slots.get_mut(base..).unwrap_or_default();
        let set = find_fields(message, bytes, slots)?;
        for at in ones(set | message.written_unset()) {
            let field = fields.get(at).ok_or(UnknownField)?;
            if set >> at & 1 == 1 {
                let slot = self.slots.get(base.saturating_add(at));
                let slot = slot.copied().unwrap_or_default();
                self.member(field, bytes, slot, room)?;
            } else {
                self.unset(field, room)?;
            }
        }
        self.slots.truncate(base);
        Ok(())
    }

    fn member(&mut self, field: &Field, bytes: &[u8], slot: Slot, room: usize) -> Result {
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
                    let of = self.of(of)?;
                    self.key(field);
                    self.message(of, content, &field.added, room)?;
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
                    self.element(field, &mut reader, room)?;
                }
                self.close(b']');
            }
            Shape::Map => {
                self.key(field);
                self.map(field, reader, room)?;
            }
            Shape::Inline => {
                let Kind::Message(of) = field.kind else {
                    return Err(Unsupported);
                };
                let of = self.of(of)?;
                let room = room.checked_sub(1).ok_or(TooDeep)?;
                return self.members(of, slice(bytes, slot)?, room);
            }
        }
        self.out.push(b',');
        Ok(())
    }

    /// Writes a field that is not set and not left out, as Go its zero value.
    fn unset(&mut self, field: &Field, room: usize) -> Result {
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
                let of = self.of(of)?;
                return self.members(of, &[], room.saturating_sub(1));
            }
            Shape::One => {
                let of = self.of(of)?;
                self.key(field);
                self.message(of, &[], &field.added, room)?;
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

    fn of(&self, id: u16) -> Result<&'a Message> {
        self.schema.message_at(id).ok_or(Unsupported)
    }

    /// Writes the element of a list whose key comes next, with a comma. Other
    /// fields between two elements are passed over: each has its own place.
    fn element(&mut self, field: &Field, reader: &mut Reader<'_>, room: usize) -> Result {
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
                let (of, content) = (self.of(of)?, reader.content()?);
                self.message(of, content, &field.added, room)?;
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
        // There is room, made a line above.
        let written = STANDARD.encode_slice(content, room).unwrap_or_default();
        self.out.truncate(start.saturating_add(written));
        self.out.push(b'"');
    }

    /// Writes a map: by key, which is the order that Go's protobuf has too.
    fn map(&mut self, field: &Field, entries: Reader<'_>, room: usize) -> Result {
        let start = self.out.len();
        let mut last: Option<&[u8]> = None;
        let mut reader = entries;
        self.out.push(b'{');
        while !reader.is_at_end() {
            let tag = reader.varint()?;
            if tag != field.tag() {
                skip(tag, &mut reader)?;
                continue;
            }
            let (key, value) = entry(reader.content()?)?;
            if last.is_some_and(|last| last >= key) {
                self.out.truncate(start);
                return self.unordered_map(field, entries, room);
            }
            last = Some(key);
            self.entry(field, key, value, room)?;
        }
        self.close(b'}');
        Ok(())
    }

    fn unordered_map(&mut self, field: &Field, mut reader: Reader<'_>, room: usize) -> Result {
        let mut sorted = Vec::new();
        while !reader.is_at_end() {
            let tag = reader.varint()?;
            if tag == field.tag() {
                sorted.push(entry(reader.content()?)?);
            } else {
                skip(tag, &mut reader)?;
            }
        }
        sorted.sort_unstable_by_key(|(key, _)| *key);
        if sorted
            .windows(2)
            .any(|two| matches!(two, [(a, _), (b, _)] if a == b))
        {
            return Err(Twice);
        }
        self.out.push(b'{');
        for (key, value) in sorted {
            self.entry(field, key, value, room)?;
        }
        self.close(b'}');
        Ok(())
    }

    fn entry(&mut self, field: &Field, key: &[u8], value: &[u8], room: usize) -> Result {
        text::write(key, self.out);
        self.out.push(b':');
        match field.kind {
            Kind::String => text::write(value, self.out),
            Kind::Bytes => self.base64(value),
            Kind::Message(of) => {
                let of = self.of(of)?;
                self.message(of, value, b"", room)?;
            }
            // No map of Kubernetes has them.
            Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double => return Err(Unsupported),
        }
        self.out.push(b',');
        Ok(())
    }

    /// Writes a message that has a form of its own in JSON.
    fn special(&mut self, form: Form, bytes: &[u8], room: usize) -> Result {
        match form {
            Form::Object => return Err(Unsupported),
            Form::Strings => {
                self.out.push(b'[');
                let mut reader = Reader::new(bytes);
                while !reader.is_at_end() {
                    if reader.varint()? != (1 << 3 | wire::LENGTH) {
                        return Err(UnknownField);
                    }
                    text::write(reader.content()?, self.out);
                    self.out.push(b',');
                }
                self.close(b']');
            }
            Form::Time | Form::MicroTime => {
                let micros = form == Form::MicroTime;
                let moment = moment(bytes, micros)?;
                if moment.is_zero() {
                    self.null();
                } else {
                    moment.write(micros, self.out);
                }
            }
            Form::Quantity => {
                self.out.push(b'"');
                quantity::write(one_content(bytes)?.unwrap_or(b"0"), self.out)?;
                self.out.push(b'"');
            }
            Form::IntOrString => self.int_or_string(bytes)?,
            Form::RawExtension => match one_content(bytes)? {
                // Go guesses what else it may be, CBOR for example.
                Some(
                    [
                        b'\t'
                        | b'\r'
                        | b'\n'
                        | b' '
                        | b'{'
                        | b'['
                        | b'n'
                        | b't'
                        | b'f'
                        | b'"'
                        | b'-'
                        | b'0'..=b'9',
                        ..,
                    ],
                ) => self.opaque(bytes)?,
                Some(_) => return Err(Unsupported),
                None => self.null(),
            },
            Form::FieldsV1 | Form::Json => match one_content(bytes)? {
                None | Some([]) => self.null(),
                // Fields may be CBOR to Go; as JSON they are an object or null.
                Some([first, ..]) if form == Form::FieldsV1 && !first.is_ascii() => {
                    return Err(Unsupported);
                }
                Some(_) => self.opaque(bytes)?,
            },
            Form::SchemaOrArray(of) => self.schema_or_list(of, bytes, room, true)?,
            Form::SchemaOrStrings(of) => self.schema_or_list(of, bytes, room, false)?,
            Form::SchemaOrBool(of) => {
                let (mut allows, mut schema) = (false, None);
                read_small(bytes, |number, value| {
                    match (number, value) {
                        (1, Small::Varint(value)) => allows = value != 0,
                        (2, Small::Content(content)) => schema = Some(content),
                        _ => return Err(UnknownField),
                    }
                    Ok(())
                })?;
                match schema {
                    Some(schema) => {
                        let of = self.of(of)?;
                        self.message(of, schema, b"", room)?;
                    }
                    None => self.scalar(Kind::Bool, allows.into())?,
                }
            }
        }
        Ok(())
    }

    fn null(&mut self) {
        self.out.extend_from_slice(b"null");
    }

    fn opaque(&mut self, bytes: &[u8]) -> Result {
        compact::write(one_content(bytes)?.unwrap_or_default(), self.out)
    }

    fn int_or_string(&mut self, bytes: &[u8]) -> Result {
        let (mut kind, mut integer, mut string) = (0, 0, &[][..]);
        read_small(bytes, |number, value| {
            match (number, value) {
                (1, Small::Varint(value)) => kind = value,
                (2, Small::Varint(value)) => integer = wire::int32(value),
                (3, Small::Content(content)) => string = content,
                _ => return Err(UnknownField),
            }
            Ok(())
        })?;
        match kind {
            0 => number::write_integer(integer.into(), self.out),
            1 => text::write(string, self.out),
            _ => return Err(WrongType),
        }
        Ok(())
    }

    /// Writes a schema (field 1), or the list (field 2) if it has elements.
    fn schema_or_list(&mut self, of: u16, bytes: &[u8], room: usize, schemas: bool) -> Result {
        let of = self.of(of)?;
        let (start, mut schema, mut is_list) = (self.out.len(), None, false);
        self.out.push(b'[');
        let mut reader = Reader::new(bytes);
        while !reader.is_at_end() {
            match reader.varint()? {
                0x0a if schema.is_some() => return Err(Twice),
                0x0a => schema = Some(reader.content()?),
                0x12 => {
                    let content = reader.content()?;
                    if schemas {
                        self.message(of, content, b"", room)?;
                    } else {
                        text::write(content, self.out);
                    }
                    self.out.push(b',');
                    is_list = true;
                }
                _ => return Err(UnknownField),
            }
        }
        if is_list {
            // Go would not write the schema: that is for nobody to lose.
            if schema.is_some() {
                return Err(Unsupported);
            }
            self.close(b']');
            return Ok(());
        }
        self.out.truncate(start);
        match schema {
            Some(schema) => self.message(of, schema, b"", room),
            None => {
                self.null();
                Ok(())
            }
        }
    }
}

/// The positions of the bits that are set, from the lowest on.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let below = bits.checked_sub(1)?;
        let at = bits.trailing_zeros() as usize;
        bits &= below;
        Some(at)
    })
}

trait OmitsZero {
    /// Whether JSON leaves out its zero: of what is no pointer.
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

fn slice(bytes: &[u8], slot: Slot) -> Result<&[u8]> {
    bytes
        .get(slot.start as usize..slot.end as usize)
        .ok_or(Malformed)
}

/// Finds the fields of a message: a bit for each that is set. All are known, of
/// their type, and once there unless repeated; or it is an error.
fn find_fields(message: &Message, bytes: &[u8], slots: &mut [Slot]) -> Result<u64> {
    let mut set = 0u64;
    let mut reader = Reader::new(bytes);
    while !reader.is_at_end() {
        let key_at = reader.at();
        let tag = reader.varint()?;
        let position = message
            .position(tag)
            .ok_or_else(|| not_a_field(message, tag))?;
        let slot = slots.get_mut(position).ok_or(UnknownField)?;
        let mut start = reader.at();
        match tag & 7 {
            wire::LENGTH => {
                let length = reader.content()?.len();
                start = reader.at().saturating_sub(length);
            }
            wire::VARINT => drop(reader.varint()?),
            _ => drop(reader.fixed64()?),
        }
        let bit = 1u64 << position;
        // No place is beyond the length of the whole, which fits.
        if set & bit == 0 {
            let repeated = message.repeated() & bit != 0;
            slot.start = if repeated { key_at } else { start } as u32;
        } else if message.repeated() & bit == 0 {
            return Err(Twice);
        }
        slot.end = reader.at() as u32;
        set |= bit;
    }
    Ok(set)
}

/// Lists of numbers could be packed, for example: Kubernetes' never are.
#[cold]
fn not_a_field(message: &Message, tag: u64) -> NotTranscodable {
    let known = |field: &Field| u64::from(field.number) == tag >> 3;
    if message.fields().iter().any(known) {
        WrongType
    } else {
        UnknownField
    }
}

/// Passes over a field of another number than asked for.
fn skip(tag: u64, reader: &mut Reader<'_>) -> Result {
    match tag & 7 {
        wire::LENGTH => drop(reader.content()?),
        wire::VARINT => drop(reader.varint()?),
        wire::FIXED64 => drop(reader.fixed64()?),
        _ => return Err(Malformed),
    }
    Ok(())
}

/// Key and value of a map's entry. Either may be missing and is empty then.
fn entry(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let (mut key, mut value) = (None, None);
    let mut reader = Reader::new(bytes);
    while !reader.is_at_end() {
        let part = match reader.varint()? {
            0x0a => &mut key,
            0x12 => &mut value,
            _ => return Err(UnknownField),
        };
        if part.replace(reader.content()?).is_some() {
            return Err(Twice);
        }
    }
    Ok((key.unwrap_or_default(), value.unwrap_or_default()))
}

/// The content of field 1 of a message that has no other.
fn one_content(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let mut reader = Reader::new(bytes);
    if reader.is_at_end() {
        return Ok(None);
    }
    if reader.varint()? != 0x0a {
        return Err(UnknownField);
    }
    let content = reader.content()?;
    if !reader.is_at_end() {
        return Err(Twice);
    }
    Ok(Some(content))
}

/// An empty message is Go's zero time; `Time` has no parts of a second.
fn moment(bytes: &[u8], micros: bool) -> Result<Moment> {
    if bytes.is_empty() {
        return Moment::zero();
    }
    let (mut seconds, mut nanos) = (0, 0);
    read_small(bytes, |number, value| {
        match (number, value) {
            (1, Small::Varint(value)) => seconds = value as i64,
            (2, Small::Varint(value)) => nanos = wire::int32(value),
            _ => return Err(UnknownField),
        }
        Ok(())
    })?;
    Moment::new(seconds, if micros { nanos } else { 0 })
}
