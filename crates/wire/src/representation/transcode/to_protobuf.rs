//! JSON to protobuf. JSON's members come in any order and protobuf's fields in
//! that of their numbers, each message after its length: the members of a
//! message are written as they come, then put together.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::encoding::{encode_varint, encoded_len_varint};

use super::NotTranscodable::{
    Malformed, TooDeep, TooLarge, Twice, UnknownField, Unsupported, WrongType,
};
use super::json::Cursor;
use super::time::Moment;
use super::wire::Reader;
use super::{MAX_DEPTH, Result, quantity};
use crate::schema::{Field, Form, Kind, Message, Schema, Shape};

pub fn write(schema: &Schema, message: &Message, json: &[u8], out: &mut Vec<u8>) -> Result {
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

/// Members of a Pod and all the messages around one of its.
const FIRST_MEMBERS: usize = 512;

/// Where the protobuf of a member is that was read. Empty if it is null, or an
/// empty list; all zero if it was not there.
#[derive(Clone, Copy, Default)]
struct Written {
    start: u32,
    /// One more than where it ends.
    end: u32,
}

impl Written {
    fn new(start: usize, end: usize) -> Result<Self> {
        let place = |at: usize| u32::try_from(at).map_err(|_| TooLarge);
        Ok(Self {
            start: place(start)?,
            end: place(end.saturating_add(1))?,
        })
    }

    fn is_there(self) -> bool {
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

struct Writer<'a> {
    schema: &'a Schema,
    json: Cursor<'a>,
    /// Two stacks of bytes. The parts of a message are in the other one than
    /// the whole of it will be; the first is the caller's, below what is ours.
    buffers: [Vec<u8>; 2],
    /// Those of all messages around the one that is read, and its own.
    members: Vec<Written>,
    /// For so many levels of messages.
    room: usize,
}

/// Which of the buffers.
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

    fn of(&self, id: u16) -> Result<&'a Message> {
        self.schema.message_at(id).ok_or(Unsupported)
    }

    /// Writes key, length and content of something small.
    #[inline]
    fn content(&mut self, tag: Option<u64>, content: &[u8], target: Target) {
        let out = self.buffer(target);
        if let Some(tag) = tag {
            encode_varint(tag, out);
            encode_varint(content.len() as u64, out);
        }
        out.extend_from_slice(content);
    }

    /// Reads an object: writes key and length, unless it is the whole, and its
    /// content.
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

    /// Reads the members of an object, of which the brace is read, and the
    /// brace that closes it.
    fn read_members(&mut self, message: &Message, base: usize, target: Target) -> Result {
        let (mut next, mut kind, mut api_version) = (0, false, false);
        loop {
            let key = self.json.key()?;
            if let Some((at, member)) = message.member(&key, next) {
                let owner = self.of(member.owner)?;
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
                // Protobuf has these outside, or not at all.
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

    /// Reads the value of a member and writes its field, or all its elements.
    fn member(&mut self, field: &Field, target: Target) -> Result {
        if self.json.take_null()? {
            // Go's own decoder of this takes no null, if it is no pointer's.
            let form = match field.kind {
                Kind::Message(of) => self.of(of)?.form(),
                _ => Form::Object,
            };
            return match (field.shape, form) {
                (Shape::One, Form::SchemaOrBool(_)) => Err(WrongType),
                _ => Ok(()),
            };
        }
        match field.shape {
            Shape::One | Shape::Optional => self.value(field.kind, field.tag(), target),
            Shape::List => {
                if !self.json.take(b'[') {
                    return Err(WrongType);
                }
                if self.json.take(b']') {
                    return Ok(());
                }
                loop {
                    self.value(field.kind, field.tag(), target)?;
                    if !self.json.more(b']')? {
                        return Ok(());
                    }
                }
            }
            Shape::Map => self.map(field, target),
            // Its members are looked up, it is not.
            Shape::Inline => Err(Unsupported),
        }
    }

    /// Reads a value and writes it with its key. Null, which only elements can
    /// be here, is Go's zero value.
    fn value(&mut self, kind: Kind, tag: u64, target: Target) -> Result {
        match kind {
            Kind::Message(of) => {
                let of = self.of(of)?;
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

    /// The bytes of a base64 string; `None` for null.
    fn base64(&mut self) -> Result<Option<Vec<u8>>> {
        if self.json.take_null()? {
            return Ok(None);
        }
        let text = self.json.string()?;
        // Go passes over line ends, which nobody writes.
        STANDARD.decode(&*text).map(Some).map_err(|_| WrongType)
    }

    /// Reads an object whose keys are no fields: an entry each, by key.
    fn map(&mut self, field: &Field, target: Target) -> Result {
        if !self.json.take(b'{') {
            return Err(WrongType);
        }
        if self.json.take(b'}') {
            return Ok(());
        }
        let start = self.buffer(target).len();
        let (mut last, mut ordered) = (None, true);
        loop {
            let key = self.json.key()?;
            self.entry(field, &key, target)?;
            ordered &= last.is_none_or(|last| last < key);
            last = Some(key);
            if !self.json.more(b'}')? {
                break;
            }
        }
        if ordered {
            Ok(())
        } else {
            self.sort_entries(start, target)
        }
    }

    fn entry(&mut self, field: &Field, key: &[u8], target: Target) -> Result {
        // The value waits in the other buffer for the entry's length.
        let waiting = self.buffer(target.other()).len();
        match field.kind {
            // As nil is in Go: an entry without a value.
            Kind::Bytes => {
                if let Some(bytes) = self.base64()? {
                    self.content(Some(VALUE), &bytes, target.other());
                }
            }
            kind => self.value(kind, VALUE, target.other())?,
        }
        let (out, other) = both(&mut self.buffers, target);
        let value = other.get(waiting..).unwrap_or_default();
        let length = field_len(KEY, key.len()).saturating_add(value.len());
        encode_varint(field.tag(), out);
        encode_varint(length as u64, out);
        encode_varint(KEY, out);
        encode_varint(key.len() as u64, out);
        out.extend_from_slice(key);
        out.extend_from_slice(value);
        other.truncate(waiting);
        Ok(())
    }

    /// Sorts the entries of a map, from `start` to the end of the buffer.
    fn sort_entries(&mut self, start: usize, target: Target) -> Result {
        let out = self.buffer(target);
        let entries = out.split_off(start);
        let mut reader = Reader::new(&entries);
        let mut sorted = Vec::new();
        while !reader.is_at_end() {
            let from = reader.at();
            reader.varint()?;
            let mut entry = Reader::new(reader.content()?);
            entry.varint()?;
            let whole = entries.get(from..reader.at()).ok_or(Malformed)?;
            sorted.push((entry.content()?, whole));
        }
        sorted.sort_unstable_by_key(|(key, _)| *key);
        if sorted
            .windows(2)
            .any(|two| matches!(two, [(a, _), (b, _)] if a == b))
        {
            return Err(Twice);
        }
        sorted
            .iter()
            .for_each(|(_, whole)| out.extend_from_slice(whole));
        Ok(())
    }

    /// Reads a value that has a form of its own.
    fn special(&mut self, form: Form, tag: Option<u64>, target: Target) -> Result {
        let mut content = Vec::new();
        let null = self.json.take_null()?;
        match form {
            Form::Object => return Err(Unsupported),
            Form::SchemaOrBool(_) if null => return Err(WrongType),
            Form::Quantity if null => content.extend_from_slice(b"\x0a\x010"),
            Form::IntOrString if null => content.extend_from_slice(b"\x08\0\x10\0\x1a\0"),
            _ if null => {}
            Form::Time | Form::MicroTime => {
                let micros = form == Form::MicroTime;
                let moment = Moment::parse(&self.json.string()?, micros)?;
                if !moment.is_zero() {
                    encode_varint(0x08, &mut content);
                    encode_varint(moment.seconds() as u64, &mut content);
                    encode_varint(0x10, &mut content);
                    encode_varint(moment.nanos().into(), &mut content);
                }
            }
            Form::Quantity => {
                // Go looks at the bytes between the quotes, escapes and all.
                let literal = self.json.literal()?;
                let inner = literal
                    .strip_prefix(b"\"")
                    .and_then(|l| l.strip_suffix(b"\""));
                let mut canonical = Vec::new();
                quantity::write(inner.unwrap_or(literal), &mut canonical)?;
                bytes_field(KEY, &canonical, &mut content);
            }
            Form::IntOrString if self.json.peek() == b'"' => {
                let text = self.json.string()?;
                content.extend_from_slice(b"\x08\x01\x10\0");
                bytes_field(0x1a, &text, &mut content);
            }
            Form::IntOrString => {
                let value = i32::try_from(self.json.integer()?).map_err(|_| WrongType)?;
                content.extend_from_slice(b"\x08\0\x10");
                encode_varint(i64::from(value) as u64, &mut content);
                content.extend_from_slice(b"\x1a\0");
            }
            Form::RawExtension | Form::FieldsV1 | Form::Json => {
                let literal = self.json.literal()?;
                let length = field_len(KEY, literal.len());
                let out = self.buffer(target);
                if let Some(tag) = tag {
                    encode_varint(tag, out);
                    encode_varint(length as u64, out);
                }
                bytes_field(KEY, literal, out);
                return Ok(());
            }
            Form::Strings => {
                return self.wrapped(tag, target, |this| this.strings(KEY, target.other()));
            }
            Form::SchemaOrArray(of) => {
                let of = self.of(of)?;
                return self.wrapped(tag, target, |this| this.schema_or_array(of, target.other()));
            }
            Form::SchemaOrStrings(of) => {
                let of = self.of(of)?;
                return self.wrapped(tag, target, |this| match this.json.peek() {
                    b'{' => this.object(of, Some(KEY), target.other()),
                    _ => this.strings(VALUE, target.other()),
                });
            }
            Form::SchemaOrBool(of) => {
                let of = self.of(of)?;
                return self.wrapped(tag, target, |this| {
                    let object = this.json.peek() == b'{';
                    let allows = object || this.json.boolean()?;
                    this.buffer(target.other())
                        .extend_from_slice(&[0x08, allows.into()]);
                    if object {
                        this.object(of, Some(VALUE), target.other())?;
                    }
                    Ok(())
                });
            }
        }
        self.content(tag, &content, target);
        Ok(())
    }

    /// Writes key and length of what is written to the next target.
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

    fn strings(&mut self, tag: u64, target: Target) -> Result {
        self.list(|this| this.value(Kind::String, tag, target))
    }

    fn schema_or_array(&mut self, of: &Message, target: Target) -> Result {
        if self.json.peek() == b'{' {
            return self.object(of, Some(KEY), target);
        }
        self.list(|this| this.object(of, Some(VALUE), target))
    }

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

/// The buffer of a target, and the other.
fn both(buffers: &mut [Vec<u8>; 2], target: Target) -> (&mut Vec<u8>, &mut Vec<u8>) {
    let [first, second] = buffers;
    match target {
        Target::First => (first, second),
        Target::Second => (second, first),
    }
}

/// The keys of fields 1 and 2 that have a length: of a map's entry.
const KEY: u64 = 0x0a;
const VALUE: u64 = 0x12;

fn bytes_field(tag: u64, content: &[u8], out: &mut Vec<u8>) {
    encode_varint(tag, out);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

/// The length of a field with a content of this length.
fn field_len(tag: u64, content: usize) -> usize {
    encoded_len_varint(tag)
        .saturating_add(encoded_len_varint(content as u64))
        .saturating_add(content)
}

/// The length of a message's protobuf, of which these members were read.
fn length(schema: &Schema, message: &Message, members: &[Written]) -> usize {
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

/// Writes a message: its fields by their numbers, those that were not read as
/// Go writes what is not set.
fn assemble(
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
