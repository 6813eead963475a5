//! Messages whose JSON form is not an object with their fields.

use prost::encoding::encode_varint;

use super::super::NotTranscodable::{Unsupported, WrongType};
use super::super::time::Moment;
use super::super::{Result, quantity};
use super::{KEY, Target, VALUE, Writer, both, bytes_field, field_len};
use crate::schema::{Form, Kind};

impl Writer<'_> {
    pub(super) fn special(&mut self, form: Form, tag: Option<u64>, target: Target) -> Result {
        if self.json.take_null()? {
            let zero = zero(form)?;
            self.content(tag, zero, target);
            return Ok(());
        }
        match form {
            Form::Object => Err(Unsupported),
            Form::Time => self.time(tag, target, false),
            Form::MicroTime => self.time(tag, target, true),
            Form::Quantity => self.quantity(tag, target),
            Form::IntOrString => self.int_or_string(tag, target),
            Form::RawExtension | Form::FieldsV1 | Form::Json => self.literal(tag, target),
            Form::Strings => self.wrapped(tag, target, |this| this.strings(KEY, target.other())),
            Form::SchemaOrArray(of) => self.schema_or_array(of, tag, target),
            Form::SchemaOrStrings(of) => self.schema_or_strings(of, tag, target),
            Form::SchemaOrBool(of) => self.schema_or_bool(of, tag, target),
        }
    }

    fn time(&mut self, tag: Option<u64>, target: Target, micros: bool) -> Result {
        let moment = Moment::parse(&self.json.string()?, micros)?;
        let mut content = Vec::new();
        if !moment.is_zero() {
            encode_varint(0x08, &mut content);
            encode_varint(moment.seconds() as u64, &mut content);
            encode_varint(0x10, &mut content);
            encode_varint(moment.nanos().into(), &mut content);
        }
        self.content(tag, &content, target);
        Ok(())
    }

    fn quantity(&mut self, tag: Option<u64>, target: Target) -> Result {
        // Go reads the bytes between the quotes as they are, escapes included.
        let literal = self.json.literal()?;
        let inner = literal
            .strip_prefix(b"\"")
            .and_then(|l| l.strip_suffix(b"\""));
        let (mut canonical, mut content) = (Vec::new(), Vec::new());
        quantity::write(inner.unwrap_or(literal), &mut canonical)?;
        bytes_field(KEY, &canonical, &mut content);
        self.content(tag, &content, target);
        Ok(())
    }

    fn int_or_string(&mut self, tag: Option<u64>, target: Target) -> Result {
        let mut content = Vec::new();
        if self.json.peek() == b'"' {
            let text = self.json.string()?;
            content.extend_from_slice(b"\x08\x01\x10\0");
            bytes_field(0x1a, &text, &mut content);
        } else {
            let value = i32::try_from(self.json.integer()?).map_err(|_| WrongType)?;
            content.extend_from_slice(b"\x08\0\x10");
            encode_varint(i64::from(value) as u64, &mut content);
            content.extend_from_slice(b"\x1a\0");
        }
        self.content(tag, &content, target);
        Ok(())
    }

    fn literal(&mut self, tag: Option<u64>, target: Target) -> Result {
        let literal = self.json.literal()?;
        let length = field_len(KEY, literal.len());
        let out = self.buffer(target);
        if let Some(tag) = tag {
            encode_varint(tag, out);
            encode_varint(length as u64, out);
        }
        bytes_field(KEY, literal, out);
        Ok(())
    }

    fn schema_or_array(&mut self, of: u16, tag: Option<u64>, target: Target) -> Result {
        let of = self.message_at(of)?;
        self.wrapped(tag, target, |this| match this.json.peek() {
            b'{' => this.object(of, Some(KEY), target.other()),
            _ => this.list(|this| this.object(of, Some(VALUE), target.other())),
        })
    }

    fn schema_or_strings(&mut self, of: u16, tag: Option<u64>, target: Target) -> Result {
        let of = self.message_at(of)?;
        self.wrapped(tag, target, |this| match this.json.peek() {
            b'{' => this.object(of, Some(KEY), target.other()),
            _ => this.strings(VALUE, target.other()),
        })
    }

    fn schema_or_bool(&mut self, of: u16, tag: Option<u64>, target: Target) -> Result {
        let of = self.message_at(of)?;
        self.wrapped(tag, target, |this| {
            let object = this.json.peek() == b'{';
            let allows = object || this.json.boolean()?;
            let out = this.buffer(target.other());
            out.extend_from_slice(&[0x08, allows.into()]);
            if object {
                this.object(of, Some(VALUE), target.other())?;
            }
            Ok(())
        })
    }

    fn strings(&mut self, tag: u64, target: Target) -> Result {
        self.list(|this| this.value(Kind::String, tag, target))
    }

    /// Writes key and length, then everything that `write` writes to the other
    /// target.
    fn wrapped(
        &mut self,
        tag: Option<u64>,
        target: Target,
        write: impl FnOnce(&mut Self) -> Result,
    ) -> Result {
        let waiting = self.buffer(target.other()).len();
        write(self)?;
        let (out, other) = both(&mut self.buffers, target);
        let content = other.get(waiting..).unwrap_or_default();
        if let Some(tag) = tag {
            encode_varint(tag, out);
            encode_varint(content.len() as u64, out);
        }
        out.extend_from_slice(content);
        other.truncate(waiting);
        Ok(())
    }
}

/// Returns the content that Go writes for null.
fn zero(form: Form) -> Result<&'static [u8]> {
    match form {
        Form::Object => Err(Unsupported),
        Form::SchemaOrBool(_) => Err(WrongType),
        Form::Quantity => Ok(b"\x0a\x010"),
        Form::IntOrString => Ok(b"\x08\0\x10\0\x1a\0"),
        _ => Ok(b""),
    }
}
