//! A message of the schema: a Go struct with its JSON and protobuf encodings.

use super::names::Names;

/// A message. Its fields have numbers in protobuf and names in JSON.
#[derive(Debug)]
pub struct Message {
    pub(super) name: Box<str>,
    pub(super) form: Form,
    pub(super) type_meta: bool,
    /// The fields in JSON's order, which is the order of the Go struct.
    pub(super) fields: Box<[Field]>,
    /// The position of a field by its protobuf key, or [`NO_FIELD`].
    pub(super) by_tag: Box<[u8]>,
    /// The fields that are lists or maps, one bit each.
    pub(super) repeated: u64,
    /// The fields that JSON contains even if they are not set, one bit each.
    pub(super) written_unset: u64,
    /// The positions of the fields in protobuf's order.
    pub(super) ascending: Box<[u16]>,
    /// The members of the JSON object: the fields, with each inlined message
    /// replaced by its members.
    pub(super) members: Box<[Member]>,
    pub(super) member_names: Names,
    /// The protobuf encoding of a message in which nothing is set.
    pub(super) zero: Box<[u8]>,
}

/// The most fields of a message. A word has a bit for each. Kubernetes' largest
/// message has 44.
pub(super) const MAX_FIELDS: usize = 64;
/// The value in `by_tag` of a key that belongs to no field.
pub(super) const NO_FIELD: u8 = u8::MAX;

/// The JSON form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object with a member per field.
    Object,
    /// A list of strings, `[…]`. In protobuf it is a message whose field 1 is
    /// repeated.
    Strings,
    /// Types with their own marshalling code in Go.
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    RawExtension,
    FieldsV1,
    /// `apiextensions.JSON`.
    Json,
    /// Types that may hold the message at this position of the schema.
    SchemaOrArray(u16),
    SchemaOrBool(u16),
    SchemaOrStrings(u16),
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) shape: Shape,
    pub(crate) kind: Kind,
    /// JSON omits the field if it is empty in the sense of Go's `omitempty`.
    pub(crate) omit_empty: bool,
    /// JSON omits the field if it is a zero time.
    pub(crate) omit_zero: bool,
    /// The name in JSON, with quotes and colon.
    pub(crate) key: Box<[u8]>,
    /// The members that kube-apiserver adds to nested objects: kind and apiVersion.
    /// Protobuf has no field for them.
    pub(crate) added: Box<[u8]>,
    /// The position of the field's member in the message, or of its first member if
    /// it is inlined.
    pub(super) member: u16,
    /// The protobuf encoding of the field when it is not set. It is empty for a
    /// field that may be absent.
    pub(super) zero: Box<[u8]>,
}

/// The number of values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Always one value: protobuf contains it even if it is zero.
    One,
    /// One value or none: a pointer or a slice in Go.
    Optional,
    List,
    /// A map with strings as keys.
    Map,
    /// Always one message, whose members are among its owner's in JSON.
    Inline,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    /// The message at this position of the schema.
    Message(u16),
}

/// A member of a message's JSON object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// The message that has the field: the message itself, or an inlined one.
    pub(crate) owner: u16,
    pub(crate) field: u16,
}

impl Message {
    /// Returns the last parts of the Go package's path, and the type's name:
    /// `core/v1.Pod`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Tells whether the JSON may have kind and apiVersion, which protobuf lacks.
    pub(crate) fn has_type_meta(&self) -> bool {
        self.type_meta
    }

    /// Returns the fields in JSON's order.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the position of a field in [`Self::fields`]. `tag` is its
    /// protobuf key: number and wire type.
    #[inline]
    pub(crate) fn position(&self, tag: u64) -> Option<usize> {
        let at = self.by_tag.get(usize::try_from(tag).ok()?)?;
        (*at != NO_FIELD).then_some(usize::from(*at))
    }

    /// Returns the fields that are lists or maps, as one bit per position.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Returns the fields that JSON contains even if they are not set, as one
    /// bit per position.
    pub(crate) fn written_unset(&self) -> u64 {
        self.written_unset
    }

    pub(crate) fn ascending(&self) -> impl Iterator<Item = &Field> {
        let field = |at: &u16| self.fields.get(usize::from(*at));
        self.ascending.iter().filter_map(field)
    }

    /// Returns the number of members that the JSON object can have, including
    /// those of inlined messages.
    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// Returns the member with this name, and its position among the members.
    /// `hint` is its likely position: the one after the previous member.
    pub(crate) fn member(&self, name: &[u8], hint: usize) -> Option<(usize, Member)> {
        let at = self.member_names.find(name, hint)?;
        Some((at, *self.members.get(at)?))
    }

    /// Returns the position of the field with this member: the member's own field, or
    /// the inlined message that has the member.
    pub(crate) fn field_with_member(&self, name: &[u8]) -> Option<usize> {
        let (at, _) = self.member(name, 0)?;
        // Both the fields and the members are in JSON's order.
        let after = self.fields.partition_point(|f| f.first_member() <= at);
        after.checked_sub(1)
    }

    /// Returns the protobuf encoding of a message in which nothing is set.
    pub(crate) fn zero(&self) -> &[u8] {
        &self.zero
    }
}

impl Field {
    pub(crate) fn is_repeated(&self) -> bool {
        matches!(self.shape, Shape::List | Shape::Map)
    }

    /// Returns the protobuf key: number and wire type.
    pub(crate) fn tag(&self) -> u64 {
        u64::from(self.number) << 3 | self.wire_type()
    }

    pub(crate) fn wire_type(&self) -> u64 {
        match (self.shape, self.kind) {
            (Shape::Map, _) | (_, Kind::String | Kind::Bytes | Kind::Message(_)) => 2,
            (_, Kind::Double) => 1,
            (_, Kind::Bool | Kind::Int32 | Kind::Int64) => 0,
        }
    }

    /// Tells whether JSON contains the field even if it is not set: Go omits no
    /// structs, and an inlined struct may have such fields.
    pub(crate) fn is_written_unset(&self) -> bool {
        match (self.shape, self.kind) {
            (Shape::Inline, _) => true,
            (Shape::One, Kind::Message(_)) => !self.omit_zero,
            _ => !self.omit_empty,
        }
    }

    /// Returns the name in JSON.
    pub(crate) fn name(&self) -> &[u8] {
        let quoted = self.key.strip_suffix(b"\":").unwrap_or_default();
        quoted.strip_prefix(b"\"").unwrap_or_default()
    }

    /// Returns the position of the first member of this field in its message.
    pub(crate) fn first_member(&self) -> usize {
        usize::from(self.member)
    }

    /// Returns the protobuf encoding of the field when it is not set.
    pub(crate) fn zero(&self) -> &[u8] {
        &self.zero
    }
}
