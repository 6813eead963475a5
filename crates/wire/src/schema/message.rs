//! One message: a Go struct as JSON and as protobuf.

use super::names::Names;

/// A message that protobuf writes with numbers and JSON with names.
#[derive(Debug)]
pub struct Message {
    pub(super) name: Box<str>,
    pub(super) form: Form,
    pub(super) type_meta: bool,
    /// In JSON's order, which is that of the Go struct.
    pub(super) fields: Box<[Field]>,
    /// By a field's key in protobuf, which field; [`NO_FIELD`] where there is
    /// none.
    pub(super) by_tag: Box<[u8]>,
    /// A bit per field: those that are lists or maps.
    pub(super) repeated: u64,
    /// A bit per field: those that JSON has even if they are not set.
    pub(super) written_unset: u64,
    /// The fields in protobuf's order.
    pub(super) ascending: Box<[u16]>,
    /// The members of the JSON object: the fields, inlined messages replaced
    /// by their members.
    pub(super) members: Box<[Member]>,
    pub(super) member_names: Names,
    /// The protobuf of a message of which nothing is set.
    pub(super) zero: Box<[u8]>,
}

/// A message has no more fields, so that a word has a bit for each: the largest
/// of Kubernetes has 44.
pub(super) const MAX_FIELDS: usize = 64;
/// Not the position of a field.
pub(super) const NO_FIELD: u8 = u8::MAX;

/// How a message is written as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An object with a member per field.
    Object,
    /// A Go type that is a list of strings: `[…]`, in protobuf a message whose
    /// field 1 is repeated.
    Strings,
    /// These have code of their own in Go.
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    RawExtension,
    FieldsV1,
    /// `apiextensions.JSON`.
    Json,
    /// With the message of the schema they may hold.
    SchemaOrArray(u16),
    SchemaOrBool(u16),
    SchemaOrStrings(u16),
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    pub number: u32,
    pub shape: Shape,
    pub kind: Kind,
    /// Left out of JSON if empty, as Go's `omitempty` means it.
    pub omit_empty: bool,
    /// Left out of JSON if a zero time.
    pub omit_zero: bool,
    /// Its member's name in JSON, with quotes and colon.
    pub key: Box<[u8]>,
    /// Members that kube-apiserver adds to the object: kind and apiVersion of
    /// objects inside objects, which protobuf has no place for.
    pub added: Box<[u8]>,
    /// Its member of the message, or the first of them if it is inlined.
    pub(super) member: u16,
    /// The protobuf of it when it is not set: empty for what may be absent.
    pub(super) zero: Box<[u8]>,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Always one: protobuf has it even when it is zero.
    One,
    /// One or none: a pointer or a slice in Go.
    Optional,
    List,
    /// By strings.
    Map,
    /// Always one message, whose members JSON puts among those of its owner.
    Inline,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    /// By its place in the schema.
    Message(u16),
}

/// A member of a message's JSON object.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The message that has the field: the object's own, or an inlined one.
    pub owner: u16,
    pub field: u16,
}

impl Message {
    /// The end of its Go package's path and its name: `core/v1.Pod`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// Whether JSON may have kind and apiVersion, which protobuf has not.
    pub(crate) fn has_type_meta(&self) -> bool {
        self.type_meta
    }

    /// In JSON's order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The position of a field in [`Self::fields`] by its key in protobuf:
    /// number and wire type.
    #[inline]
    pub fn position(&self, tag: u64) -> Option<usize> {
        let at = self.by_tag.get(usize::try_from(tag).ok()?)?;
        (*at != NO_FIELD).then_some(usize::from(*at))
    }

    /// A bit per field, by position: those that are lists or maps.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// A bit per field, by position: those that JSON has even if they are not
    /// set.
    pub(crate) fn written_unset(&self) -> u64 {
        self.written_unset
    }

    /// The fields in the order of their protobuf numbers.
    pub(crate) fn ascending(&self) -> impl Iterator<Item = &Field> {
        let field = |at: &u16| self.fields.get(usize::from(*at));
        self.ascending.iter().filter_map(field)
    }

    /// How many members its JSON object can have, those of inlined messages
    /// included.
    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// The member of a name, and its position among them. `hint` is where it
    /// is likely to be: after the member before.
    pub fn member(&self, name: &[u8], hint: usize) -> Option<(usize, Member)> {
        let at = self.member_names.find(name, hint)?;
        Some((at, *self.members.get(at)?))
    }

    /// The protobuf of a message of which nothing is set.
    pub fn zero(&self) -> &[u8] {
        &self.zero
    }
}

impl Field {
    pub(crate) fn is_repeated(&self) -> bool {
        matches!(self.shape, Shape::List | Shape::Map)
    }

    /// The key of its protobuf: number and wire type.
    pub fn tag(&self) -> u64 {
        u64::from(self.number) << 3 | self.wire_type()
    }

    pub fn wire_type(&self) -> u64 {
        match (self.shape, self.kind) {
            (Shape::Map, _) | (_, Kind::String | Kind::Bytes | Kind::Message(_)) => 2,
            (_, Kind::Double) => 1,
            (_, Kind::Bool | Kind::Int32 | Kind::Int64) => 0,
        }
    }

    /// Whether JSON has it even if it is not set: Go leaves out no structs, and
    /// an inlined one may have such fields.
    pub(crate) fn is_written_unset(&self) -> bool {
        match (self.shape, self.kind) {
            (Shape::Inline, _) => true,
            (Shape::One, Kind::Message(_)) => !self.omit_zero,
            _ => !self.omit_empty,
        }
    }

    /// Its name in JSON.
    pub fn name(&self) -> &[u8] {
        let quoted = self.key.strip_suffix(b"\":").unwrap_or_default();
        quoted.strip_prefix(b"\"").unwrap_or_default()
    }

    /// Where its members begin among those of the message that has it.
    pub(crate) fn first_member(&self) -> usize {
        usize::from(self.member)
    }

    /// Its protobuf when it is not set.
    pub fn zero(&self) -> &[u8] {
        &self.zero
    }
}
