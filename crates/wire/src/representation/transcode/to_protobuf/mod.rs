//! JSON to protobuf. JSON has members in any order. Protobuf has fields in the
//! order of their numbers, and each message's length before it. So the members of a
//! message are first written in the order of the JSON, then put together.

mod assembly;
mod map;
mod special_forms;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::encoding::{encode_varint, encoded_len_varint};

use self::assembly::{Written, assemble, length};
use super::NotTranscodable::{TooDeep, TooLarge, Twice, UnknownField, Unsupported, WrongType};
use super::json::Cursor;
use super::{MAX_DEPTH, Result};
use crate::schema::{Field, Form, Kind, Message, Schema, Shape};

pub(crate) fn write(schema: &Schema, message: &Message, json: &[u8], out: &mut Vec<u8>) -> Result {
    if u32::try_from(json.len()).is_err() {
        return Err(TooLarge);
    }
    let mut writer = Writer {
        schema,
        json: Cursor::new(json),
        buffers: [std::mem::take(out), Vec::with_capacity(json.len())],
        members: Vec::with_capacity(FIRST_MEMBERS),
        room: MAX_DEPTH,
    };
    let written = writer.whole(message);
    let [first, _] = writer.buffers;
    *out = first;
    written
}

/// Enough room for the members of a Pod and of all messages around one of its
/// members.
const FIRST_MEMBERS: usize = 512;

struct Writer<'a> {
    schema: &'a Schema,
    json: Cursor<'a>,
    /// Two stacks of bytes. A message is put together in one buffer from its
    /// members in the other. The first buffer begins with the caller's bytes.
    buffers: [Vec<u8>; 2],
    /// The members of the message that is being read, after those of all messages
    /// around it.
    members: Vec<Written>,
    /// The number of levels of messages that may follow.
    room: usize,
}

#[derive(Clone, Copy)]
enum Target {
    First,
    Second,
}

impl Target {
    fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

impl<'a> Writer<'a> {
    fn whole(&mut self, message: &Message) -> Result {
        match message.form() {
            Form::Object => self.object(message, None, Target::First)?,
            form => self.special(form, None, Target::First)?,
        }
        self.json.end()
    }

    #[inline]
    fn buffer(&mut self, target: Target) -> &mut Vec<u8> {
        let [first, second] = &mut self.buffers;
        match target {
            Target::First => first,
            Target::Second => second,
        }
    }

    fn tag(&mut self, tag: u64, target: Target) {
        encode_varint(tag, self.buffer(target));
    }

    fn message_at(&self, id: u16) -> Result<&'a Message> {
        self.schema.message_at(id).ok_or(Unsupported)
    }

    /// Writes a field's key, length and content, or the content alone without a
    /// tag.
    #[inline]
    fn content(&mut self, tag: Option<u64>, content: &[u8], target: Target) {
        let out = self.buffer(target);
        if let Some(tag) = tag {
            encode_varint(tag, out);
            encode_varint(content.len() as u64, out);
        }
        out.extend_from_slice(content);
    }

    /// Reads an object, and writes key, length and content. Without a tag, as for
    /// the whole message, it writes neither key nor length.
    fn object(&mut self, message: &Message, tag: Option<u64>, target: Target) -> Result {
        if self.json.take_null()? {
            self.content(tag, message.zero(), target);
            return Ok(());
        }
        if !self.json.take(b'{') {
            return Err(WrongType);
        }
        let room = self.room;
        self.room = room.checked_sub(1).ok_or(TooDeep)?;
        let parts = self.buffer(target.other()).len();
        let base = self.members.len();
        let end = base.saturating_add(message.member_count());
        self.members.resize(end, Written::default());
        if !self.json.take(b'}') {
            self.read_members(message, base, target.other())?;
        }
        self.room = room;
        let members = self.members.get(base..).unwrap_or_default();
        let length = length(self.schema, message, members);
        let schema = self.schema;
        let (out, from) = both(&mut self.buffers, target);
        if let Some(tag) = tag {
            encode_varint(tag, out);
            encode_varint(length as u64, out);
        }
        assemble(schema, message, members, from, out);
        from.truncate(parts);
        self.members.truncate(base);
        Ok(())
    }

    /// Reads the members of an object and its closing brace. The opening brace has
    /// been read.
    fn read_members(&mut self, message: &Message, base: usize, target: Target) -> Result {
        let (mut next, mut kind, mut api_version) = (0, false, false);
        loop {
            let key = self.json.key()?;
            if let Some((at, member)) = message.member(&key, next) {
                let owner = self.message_at(member.owner)?;
                let field = owner.fields().get(usize::from(member.field));
                let field = field.ok_or(Unsupported)?;
                let place = base.saturating_add(at);
                if self.members.get(place).is_none_or(|m| m.is_there()) {
                    return Err(Twice);
                }
                let start = self.buffer(target).len();
                self.member(field, target)?;
                let written = Written::new(start, self.buffer(target).len())?;
                if let Some(member) = self.members.get_mut(place) {
                    *member = written;
                }
                next = at.saturating_add(1);
            } else {
                // Protobuf has these members outside the message, or not at
                // all.
                let seen = match &*key {
                    b"kind" if message.has_type_meta() => &mut kind,
                    b"apiVersion" if message.has_type_meta() => &mut api_version,
                    _ => return Err(UnknownField),
                };
                if std::mem::replace(seen, true) {
                    return Err(Twice);
                }
                if !self.json.take_null()? {
                    self.json.string()?;
                }
            }
            if !self.json.more(b'}')? {
                return Ok(());
            }
        }
    }

    /// Reads the value of a member, and writes its field or all its elements.
    fn member(&mut self, field: &Field, target: Target) -> Result {
        if self.json.take_null()? {
            // Go's decoder of this form takes null only for a pointer.
            let form = match field.kind {
                Kind::Message(of) => self.message_at(of)?.form(),
                _ => Form::Object,
            };
            return match (field.shape, form) {
                (Shape::One, Form::SchemaOrBool(_)) => Err(WrongType),
                _ => Ok(()),
            };
        }
        match field.shape {
            Shape::One | Shape::Optional => self.value(field.kind, field.tag(), target),
            Shape::List => self.list(|this| this.value(field.kind, field.tag(), target)),
            Shape::Map => self.map(field, target),
            // The schema resolves an inlined message to its members, so this does
            // not happen.
            Shape::Inline => Err(Unsupported),
        }
    }

    /// Reads a value and writes it with its key. Here only elements can be null,
    /// and null is Go's zero value.
    fn value(&mut self, kind: Kind, tag: u64, target: Target) -> Result {
        match kind {
            Kind::Message(of) => {
                let of = self.message_at(of)?;
                return match of.form() {
                    Form::Object => self.object(of, Some(tag), target),
                    form => self.special(form, Some(tag), target),
                };
            }
            Kind::String => {
                let text = match self.json.peek() {
                    b'n' => self.json.take_null().map(|_| Default::default())?,
                    _ => self.json.string()?,
                };
                self.content(Some(tag), &text, target);
                return Ok(());
            }
            Kind::Bytes => {
                let bytes = self.base64()?.unwrap_or_default();
                self.content(Some(tag), &bytes, target);
                return Ok(());
            }
            Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double => {}
        }
        self.tag(tag, target);
        let null = self.json.take_null()?;
        let value = match kind {
            _ if null => 0,
            Kind::Bool => u64::from(self.json.boolean()?),
            Kind::Int32 => {
                let value = i32::try_from(self.json.integer()?);
                i64::from(value.map_err(|_| WrongType)?) as u64
            }
            Kind::Int64 => self.json.integer()? as u64,
            _ => {
                let value: f64 = self.json.number()?.parse().map_err(|_| WrongType)?;
                if !value.is_finite() {
                    return Err(WrongType);
                }
                value.to_bits()
            }
        };
        let out = self.buffer(target);
        if kind == Kind::Double {
            out.extend_from_slice(&value.to_le_bytes());
        } else {
            encode_varint(value, out);
        }
        Ok(())
    }

    /// Reads the bytes of a base64 string. Returns `None` for null.
    fn base64(&mut self) -> Result<Option<Vec<u8>>> {
        if self.json.take_null()? {
            return Ok(None);
        }
        let text = self.json.string()?;
        // Go skips line ends in base64. No client writes them.
        STANDARD.decode(&*text).map(Some).map_err(|_| WrongType)
    }

    #[inline]
    fn list(&mut self, mut element: impl FnMut(&mut Self) -> Result) -> Result {
        if !self.json.take(b'[') {
            return Err(WrongType);
        }
        if self.json.take(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if !self.json.more(b']')? {
                return Ok(());
            }
        }
    }
}

#[inline]
fn both(buffers: &mut [Vec<u8>; 2], target: Target) -> (&mut Vec<u8>, &mut Vec<u8>) {
    let [first, second] = buffers;
    match target {
        Target::First => (first, second),
        Target::Second => (second, first),
    }
}

/// The tags of fields 1 and 2 of a map's entry. Both have a length.
const KEY: u64 = 0x0a;
const VALUE: u64 = 0x12;

#[inline]
fn bytes_field(tag: u64, content: &[u8], out: &mut Vec<u8>) {
    encode_varint(tag, out);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

/// Returns the length of a field with a content of this length.
#[inline]
fn field_len(tag: u64, content: usize) -> usize {
    encoded_len_varint(tag)
        .saturating_add(encoded_len_varint(content as u64))
        .saturating_add(content)
}
