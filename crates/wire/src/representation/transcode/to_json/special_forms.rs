//! Messages whose JSON form is not an object with their fields.

use super::super::NotTranscodable::{Twice, UnknownField, Unsupported, WrongType};
use super::super::time::Moment;
use super::super::wire::{self, Reader, Small, read_small};
use super::super::{Result, number, quantity, text};
use super::Writer;
use super::filter::Filter;
use crate::schema::{Form, Kind};

impl Writer<'_> {
    pub(super) fn special<F: Filter>(
        &mut self,
        form: Form,
        bytes: &[u8],
        room: usize,
        filter: F,
    ) -> Result {
        match form {
            Form::Object => Err(Unsupported),
            Form::Strings => self.strings(bytes),
            Form::Time => self.time(bytes, false),
            Form::MicroTime => self.time(bytes, true),
            Form::Quantity => self.quantity(bytes),
            Form::IntOrString => self.int_or_string(bytes),
            Form::RawExtension => self.raw_extension(bytes, filter),
            Form::FieldsV1 => self.fields_v1(bytes, filter),
            Form::Json => self.json(one_content(bytes)?, filter),
            Form::SchemaOrArray(of) => self.schema_or_list(of, bytes, room, true, filter),
            Form::SchemaOrStrings(of) => self.schema_or_list(of, bytes, room, false, filter),
            Form::SchemaOrBool(of) => self.schema_or_bool(of, bytes, room, filter),
        }
    }

    fn strings(&mut self, bytes: &[u8]) -> Result {
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
        Ok(())
    }

    #[inline]
    fn time(&mut self, bytes: &[u8], micros: bool) -> Result {
        let moment = moment(bytes, micros)?;
        if moment.is_zero() {
            self.null();
        } else {
            moment.write(micros, self.out);
        }
        Ok(())
    }

    #[inline]
    fn quantity(&mut self, bytes: &[u8]) -> Result {
        self.out.push(b'"');
        quantity::write(one_content(bytes)?.unwrap_or(b"0"), self.out)?;
        self.out.push(b'"');
        Ok(())
    }

    fn raw_extension<F: Filter>(&mut self, bytes: &[u8], filter: F) -> Result {
        let content = one_content(bytes)?;
        match content {
            None => self.null(),
            Some([first, ..]) if begins_json(*first) => return self.json(content, filter),
            // Go guesses the encoding of other contents, such as CBOR.
            Some(_) => return Err(Unsupported),
        }
        Ok(())
    }

    #[inline]
    fn fields_v1<F: Filter>(&mut self, bytes: &[u8], filter: F) -> Result {
        match one_content(bytes)? {
            // Go takes such fields for CBOR. As JSON, fields are an object or
            // null.
            Some([first, ..]) if !first.is_ascii() => Err(Unsupported),
            content => self.json(content, filter),
        }
    }

    #[inline]
    fn json<F: Filter>(&mut self, content: Option<&[u8]>, filter: F) -> Result {
        match content {
            None | Some([]) => {
                self.null();
                Ok(())
            }
            Some(content) => filter.write_opaque(content, self.out),
        }
    }

    #[inline]
    fn null(&mut self) {
        self.out.extend_from_slice(b"null");
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

    /// Writes a schema (field 2) if there is one, else a boolean (field 1).
    fn schema_or_bool<F: Filter>(
        &mut self,
        of: u16,
        bytes: &[u8],
        room: usize,
        filter: F,
    ) -> Result {
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
                let of = self.message_at(of)?;
                self.message(of, schema, b"", room, filter)
            }
            None => self.scalar(Kind::Bool, allows.into()),
        }
    }

    /// Writes a schema (field 1), or the list (field 2) if it has elements.
    fn schema_or_list<F: Filter>(
        &mut self,
        of: u16,
        bytes: &[u8],
        room: usize,
        schemas: bool,
        filter: F,
    ) -> Result {
        let of = self.message_at(of)?;
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
                        self.message(of, content, b"", room, filter)?;
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
            // Go would not write the schema, but no field may be lost.
            if schema.is_some() {
                return Err(Unsupported);
            }
            self.close(b']');
            return Ok(());
        }
        self.out.truncate(start);
        match schema {
            Some(schema) => self.message(of, schema, b"", room, filter),
            None => {
                self.null();
                Ok(())
            }
        }
    }
}

/// Tells whether JSON can begin with this byte.
#[inline]
fn begins_json(byte: u8) -> bool {
    matches!(
        byte,
        b'\t' | b'\r' | b'\n' | b' ' | b'{' | b'[' | b'n' | b't' | b'f' | b'"' | b'-' | b'0'..=b'9'
    )
}

/// Returns the content of field 1, if the message has no other field.
#[inline]
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

/// Reads a time. An empty message is Go's zero time. `Time` has no fractions of a
/// second.
#[inline]
pub(super) fn moment(bytes: &[u8], micros: bool) -> Result<Moment> {
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
