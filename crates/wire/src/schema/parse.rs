//! Reads `kubernetes.txt`. Its lines:
//!
//! ```text
//! kubernetes v1.37.1                    the release
//! message core/v1.Pod                   a message; its fields are indented
//!  typemeta                             JSON may have kind and apiVersion
//!  1 metadata meta/v1.ObjectMeta omitempty
//! message meta/v1.Time time             a message with its own JSON form
//! group apps/v1                         the kinds of an apiVersion follow
//!  Deployment apps/v1.Deployment
//! ```
//!
//! A field has its protobuf number, JSON name (`.`: inlined), type (`*`
//! pointer, `[]` list, `{}` map with strings as keys; a scalar or a message)
//! and flags.

use std::collections::HashMap;

use prost::encoding::encode_varint;

use super::Schema;
use super::message::{Field, Form, Kind, MAX_FIELDS, Member, Message, NO_FIELD, Shape};
use super::names::Names;

/// The file does not have the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schema: {0}")]
pub(crate) struct Unreadable(String);

fn unreadable(what: &str, line: &str) -> Unreadable {
    Unreadable(format!("{what}: {line}"))
}

/// The largest protobuf number, since numbers index a table. Kubernetes'
/// largest is below 50.
const MAX_NUMBER: u32 = 1000;

/// The deepest nesting of messages without a pointer between them. Kubernetes has 6
/// levels. A cycle would be a struct of infinite size.
const MAX_NESTING: usize = 32;

impl Schema {
    pub(super) fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut schema = Self::default();
        // Messages refer to messages that are read later.
        let declared = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("message ")?;
            rest.split(' ').next()
        });
        for (at, name) in declared.enumerate() {
            let id = u16::try_from(at).map_err(|_| unreadable("too many messages", name))?;
            if schema.names.insert(name.into(), id).is_some() {
                return Err(unreadable("twice", name));
            }
        }
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let mut indented = Vec::new();
            while let Some(inner) = lines.peek().and_then(|l| l.strip_prefix(' ')) {
                indented.push(inner);
                lines.next();
            }
            match line.split_once(' ') {
                Some(("kubernetes", version)) => schema.version = version.to_owned(),
                Some(("message", head)) => {
                    let message = schema.read_message(head, &indented)?;
                    schema.messages.push(message);
                }
                Some(("group", api_version)) => schema.read_kinds(api_version, &indented)?,
                Some(("#", _)) => {}
                _ => return Err(unreadable("no such line", line)),
            }
        }
        let count = u16::try_from(schema.messages.len()).unwrap_or(u16::MAX);
        (0..count).try_for_each(|id| schema.list_members(id))?;
        (0..count).try_for_each(|id| schema.write_zeros(id))?;
        Ok(schema)
    }

    fn id(&self, name: &str) -> Result<u16, Unreadable> {
        let id = self.names.get(name).copied();
        id.ok_or_else(|| unreadable("no such message", name))
    }

    fn read_kinds(&mut self, api_version: &str, lines: &[&str]) -> Result<(), Unreadable> {
        let mut kinds = HashMap::new();
        for line in lines {
            let split = line.split_once(' ');
            let (kind, message) = split.ok_or_else(|| unreadable("no kind", line))?;
            kinds.insert(kind.into(), self.id(message)?);
        }
        self.kinds.insert(api_version.into(), kinds);
        Ok(())
    }

    fn read_message(&self, head: &str, lines: &[&str]) -> Result<Message, Unreadable> {
        let mut words = head.split(' ');
        let name = words.next().unwrap_or_default();
        let form = match (words.next(), words.next()) {
            (None, _) => Form::Object,
            (Some("strings"), None) => Form::Strings,
            (Some("time"), None) => Form::Time,
            (Some("microtime"), None) => Form::MicroTime,
            (Some("quantity"), None) => Form::Quantity,
            (Some("intorstring"), None) => Form::IntOrString,
            (Some("rawextension"), None) => Form::RawExtension,
            (Some("fieldsv1"), None) => Form::FieldsV1,
            (Some("json"), None) => Form::Json,
            (Some("schemaorarray"), Some(of)) => Form::SchemaOrArray(self.id(of)?),
            (Some("schemaorbool"), Some(of)) => Form::SchemaOrBool(self.id(of)?),
            (Some("schemaorstrings"), Some(of)) => Form::SchemaOrStrings(self.id(of)?),
            _ => return Err(unreadable("no such form", head)),
        };
        let type_meta = lines.first() == Some(&"typemeta");
        let mut fields = Vec::new();
        for line in lines.iter().skip(usize::from(type_meta)) {
            fields.push(self.read_field(line)?);
        }
        if fields.len() > MAX_FIELDS {
            return Err(unreadable("too many fields", name));
        }
        let mut order: Vec<(u32, u16)> = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            let at = u16::try_from(at).map_err(|_| unreadable("too many fields", name))?;
            order.push((field.number, at));
        }
        order.sort_unstable();
        if order
            .windows(2)
            .any(|two| matches!(two, [(a, _), (b, _)] if a == b))
        {
            return Err(unreadable("a number twice", name));
        }
        Ok(Message {
            name: name.into(),
            form,
            type_meta,
            fields: fields.into(),
            by_tag: Box::default(),
            repeated: 0,
            written_unset: 0,
            ascending: order.into_iter().map(|(_, at)| at).collect(),
            members: Box::default(),
            member_names: Names::default(),
            zero: Box::default(),
        })
    }

    fn read_field(&self, line: &str) -> Result<Field, Unreadable> {
        let mut words = line.split(' ');
        let (Some(number), Some(name), Some(typed)) = (words.next(), words.next(), words.next())
        else {
            return Err(unreadable("no field", line));
        };
        let number = number.parse().ok().filter(|n| (1..=MAX_NUMBER).contains(n));
        let number = number.ok_or_else(|| unreadable("number", line))?;
        let (shape, scalar) = match typed.as_bytes() {
            [b'*', ..] => (Shape::Optional, typed.get(1..)),
            [b'[', ..] => (Shape::List, typed.get(2..)),
            [b'{', ..] => (Shape::Map, typed.get(2..)),
            _ if name == "." => (Shape::Inline, Some(typed)),
            _ => (Shape::One, Some(typed)),
        };
        let kind = match scalar.unwrap_or_default() {
            "bool" => Kind::Bool,
            "int32" => Kind::Int32,
            "int64" => Kind::Int64,
            "double" => Kind::Double,
            "string" => Kind::String,
            "bytes" => Kind::Bytes,
            message => Kind::Message(self.id(message)?),
        };
        let mut field = Field {
            number,
            shape,
            kind,
            omit_empty: false,
            omit_zero: false,
            key: format!("\"{name}\":").into_bytes().into(),
            added: Box::default(),
            member: 0,
            zero: Box::default(),
        };
        // Go has a slice here: nil is absent, which differs from empty.
        if shape == Shape::One && kind == Kind::Bytes {
            field.shape = Shape::Optional;
        }
        for flag in words {
            match flag.split_once('=') {
                None if flag == "omitempty" => field.omit_empty = true,
                None if flag == "omitzero" => field.omit_zero = true,
                Some(("kind", nested)) => {
                    let split = nested.rsplit_once('/');
                    let (version, kind) = split.ok_or_else(|| unreadable("kind", line))?;
                    let added = format!("\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",");
                    field.added = added.into_bytes().into();
                }
                _ => return Err(unreadable("no such flag", line)),
            }
        }
        Ok(field)
    }

    /// Lists the members of the message's JSON object. All messages must have
    /// been read.
    fn list_members(&mut self, id: u16) -> Result<(), Unreadable> {
        let Some(message) = self.message_at(id) else {
            return Ok(());
        };
        let (mut members, mut starts, mut slices) = (Vec::new(), Vec::new(), Vec::new());
        for (at, field) in message.fields.iter().enumerate() {
            starts.push(members.len());
            let of = match field.kind {
                Kind::Message(of) => self.message_at(of),
                _ => None,
            };
            let slice = of.is_some_and(|of| of.form == Form::Strings);
            slices.push(slice && field.shape == Shape::One);
            self.members_of(id, at, &mut members, 0)?;
        }
        let named = |member: &Member| {
            let owner = self.message_at(member.owner);
            let field = owner.and_then(|m| m.fields.get(usize::from(member.field)));
            field.map(Field::name).unwrap_or_default().into()
        };
        let names = Names::new(members.iter().map(named).collect());
        let names = names.ok_or_else(|| unreadable("a member twice", &message.name))?;
        if let Some(message) = self.messages.get_mut(usize::from(id)) {
            for ((field, start), slice) in message.fields.iter_mut().zip(starts).zip(slices) {
                field.member = u16::try_from(start).unwrap_or(u16::MAX);
                // As with bytes, a nil slice is absent.
                if slice {
                    field.shape = Shape::Optional;
                }
            }
            message.members = members.into();
            message.member_names = names;
            message.index_fields();
        }
        Ok(())
    }

    fn members_of(
        &self,
        owner: u16,
        at: usize,
        members: &mut Vec<Member>,
        nesting: usize,
    ) -> Result<(), Unreadable> {
        let field = self.message_at(owner).and_then(|m| m.fields.get(at));
        match field.map(|field| (field.shape, field.kind)) {
            Some((Shape::Inline, Kind::Message(of))) if nesting < MAX_NESTING => {
                let count = self.message_at(of).map_or(0, |m| m.fields.len());
                let nesting = nesting.saturating_add(1);
                (0..count).try_for_each(|at| self.members_of(of, at, members, nesting))
            }
            Some((Shape::Inline, _)) | None => Err(Unreadable("inlined".into())),
            Some(_) => {
                let field = u16::try_from(at).unwrap_or(u16::MAX);
                members.push(Member { owner, field });
                Ok(())
            }
        }
    }

    /// Makes the protobuf encoding of the message and of its fields when they
    /// are not set: Go's generated code writes every field that is not a
    /// pointer, slice or map.
    fn write_zeros(&mut self, id: u16) -> Result<(), Unreadable> {
        let Some(message) = self.message_at(id) else {
            return Ok(());
        };
        let zeros = message.fields.iter().map(|field| self.zero_of(field, 0));
        let zeros = zeros.collect::<Result<Vec<_>, _>>()?;
        let zero = self.zero_message(message, 0)?;
        if let Some(message) = self.messages.get_mut(usize::from(id)) {
            for (field, zero) in message.fields.iter_mut().zip(zeros) {
                field.zero = zero.into();
            }
            message.zero = zero.into();
        }
        Ok(())
    }

    fn zero_of(&self, field: &Field, nesting: usize) -> Result<Vec<u8>, Unreadable> {
        let mut out = Vec::new();
        if !matches!(field.shape, Shape::One | Shape::Inline) {
            return Ok(out);
        }
        encode_varint(field.tag(), &mut out);
        match field.kind {
            Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::String | Kind::Bytes => out.push(0),
            Kind::Double => out.extend_from_slice(&[0; 8]),
            Kind::Message(of) => {
                let of = self.message_at(of);
                let of = of.ok_or_else(|| Unreadable("no message".into()))?;
                let zero = self.zero_message(of, nesting.saturating_add(1))?;
                encode_varint(zero.len() as u64, &mut out);
                out.extend_from_slice(&zero);
            }
        }
        Ok(out)
    }

    fn zero_message(&self, message: &Message, nesting: usize) -> Result<Vec<u8>, Unreadable> {
        if nesting > MAX_NESTING {
            return Err(unreadable("an endless message", &message.name));
        }
        let mut out = Vec::new();
        match message.form {
            Form::Object => {
                for field in message.ascending() {
                    out.extend_from_slice(&self.zero_of(field, nesting)?);
                }
            }
            Form::SchemaOrBool(_) => out.extend_from_slice(b"\x08\0"),
            Form::Quantity => out.extend_from_slice(b"\x0a\x010"),
            Form::IntOrString => out.extend_from_slice(b"\x08\0\x10\0\x1a\0"),
            _ => {}
        }
        Ok(out)
    }
}

impl Message {
    /// Builds the indexes of the fields, once the fields' shapes are final.
    fn index_fields(&mut self) {
        let tags = self.fields.iter().map(|field| field.tag() as usize);
        let mut by_tag = vec![NO_FIELD; tags.max().map_or(0, |tag| tag.saturating_add(1))];
        for (at, field) in self.fields.iter().enumerate() {
            if let Some(free) = by_tag.get_mut(field.tag() as usize) {
                *free = u8::try_from(at).unwrap_or(NO_FIELD);
            }
            self.repeated |= u64::from(field.is_repeated()) << at;
            self.written_unset |= u64::from(field.is_written_unset()) << at;
        }
        self.by_tag = by_tag.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_go_has_them() {
        let schema = Schema::builtin();
        let volume = schema.message("core/v1.Volume").unwrap();
        let source = schema.message("core/v1.VolumeSource").unwrap();
        assert_eq!(volume.fields().len(), 2);
        assert_eq!(volume.member_count(), 1 + source.member_count());
        let (at, member) = volume.member(b"configMap", 1).unwrap();
        assert_eq!(source.member(b"configMap", 0).unwrap().0, at - 1);
        let owner = schema.message_at(member.owner).unwrap();
        assert_eq!(owner.name(), "core/v1.VolumeSource");
        assert!(volume.member(b"configmap", 0).is_none());
        // Go writes an empty Volume in this way: its name, and an empty source.
        assert_eq!(volume.zero(), b"\x0a\0\x12\0");

        let meta = schema.message("meta/v1.ObjectMeta").unwrap();
        let created = &meta.fields()[meta.position(8 << 3 | 2).unwrap()];
        assert_eq!(created.name(), b"creationTimestamp");
        assert!(created.omit_zero && created.shape == Shape::One);
        assert!(meta.position(10_000).is_none() && meta.position(8 << 3).is_none());

        let set = schema.message("apps/v1.StatefulSetSpec").unwrap();
        let (at, _) = set.member(b"volumeClaimTemplates", 0).unwrap();
        let added = br#""kind":"PersistentVolumeClaim","apiVersion":"v1","#;
        assert_eq!(&*set.fields()[at].added, added);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in [
            "what v1",
            "message a.A\nmessage a.A",
            "message a.A sometimes",
            "message a.A\n 0 name string",
            "message a.A\n 1 name text",
            "message a.A\n 1 name string\n 1 other string",
            "message a.A\n 1 name string\n 2 name string",
            "message a.A\n 1 name string omitted",
            "message a.A\n 1 a a.A",
            "message a.A\n 1 . a.A",
            "group v1\n A a.A",
        ] {
            assert!(Schema::parse(text).is_err(), "{text}");
        }
    }
}
