//! Encodes JSON as protobuf by a table of messages, as gnostic's compiler does.
//!
//! A member for which its message has no field is left out. gnostic would refuse the
//! whole document, but one backend's mistake must not break the document of all
//! servers.

use super::node::Node;
use super::v2;
use super::yaml;

pub(super) struct Message {
    /// The fields in the order of their numbers.
    pub(super) fields: &'static [Field],
    /// The number of the field for `x-` members, or 0 if the message has none.
    pub(super) extensions: u32,
}

pub(super) struct Field {
    pub(super) json: &'static str,
    pub(super) number: u32,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Texts,
    Flag,
    Int,
    Double,
    Any,
    Anys,
    One(&'static Message),
    Messages(&'static Message),
    /// A message whose first field is a list of names with values.
    Map(&'static Message),
    AnyMap,
    TextMap,
    Paths,
    ParameterDefinitions,
    Parameters,
    Responses,
    SchemaItem,
    AdditionalProperties,
    Items,
    Type,
    Security,
    SecurityDefinitions,
    /// The fields of [`v2::PRIMITIVE`].
    Primitive,
}

impl Message {
    pub(super) fn encode(&self, node: &Node) -> Vec<u8> {
        let mut out = Vec::new();
        for field in self.fields {
            if let Kind::Primitive = field.kind {
                for (number, (json, kind)) in (field.number..).zip(&v2::PRIMITIVE) {
                    kind.encode(&mut out, number, node.get(json));
                }
            } else {
                field
                    .kind
                    .encode(&mut out, field.number, node.get(field.json));
            }
        }
        if self.extensions > 0 {
            extensions(&mut out, self.extensions, node);
        }
        out
    }
}

impl Kind {
    pub(super) fn encode(self, out: &mut Vec<u8>, number: u32, node: Option<&Node>) {
        let Some(node) = node else { return };
        match self {
            Self::Text => text(out, number, &scalar(node)),
            Self::Texts => {
                for item in node.items() {
                    bytes(out, number, scalar(item).as_bytes());
                }
            }
            Self::Flag => flag(out, number, node),
            Self::Int => int(out, number, node),
            Self::Double => double(out, number, node),
            Self::Any => bytes(out, number, &any(node)),
            Self::Anys => each(out, number, node, any),
            Self::One(message) => bytes(out, number, &message.encode(node)),
            Self::Messages(message) => each(out, number, node, |item| message.encode(item)),
            Self::Map(message) => bytes(out, number, &map(node, |value| message.encode(value))),
            Self::AnyMap => bytes(out, number, &map(node, any)),
            Self::TextMap => bytes(out, number, &map_of_texts(node)),
            Self::Paths => bytes(out, number, &paths(node)),
            Self::ParameterDefinitions => bytes(out, number, &map(node, parameter)),
            Self::Parameters => each(out, number, node, parameters_item),
            Self::Responses => bytes(out, number, &responses(node)),
            Self::SchemaItem => bytes(out, number, &schema_item(node)),
            Self::AdditionalProperties => bytes(out, number, &additional_properties(node)),
            Self::Items => {
                let mut item = Vec::new();
                bytes(&mut item, 1, &v2::SCHEMA.encode(node));
                bytes(out, number, &item);
            }
            Self::Type => {
                let mut item = Vec::new();
                match node {
                    Node::List(types) => {
                        types
                            .iter()
                            .for_each(|t| bytes(&mut item, 1, scalar(t).as_bytes()));
                    }
                    one => bytes(&mut item, 1, scalar(one).as_bytes()),
                }
                bytes(out, number, &item);
            }
            Self::Security => each(out, number, node, |item| map(item, texts)),
            Self::SecurityDefinitions => bytes(out, number, &map(node, security_definition)),
            // [`Message::encode`] writes these members.
            Self::Primitive => {}
        }
    }
}

/// Encodes a `NamedX` message, which has a name and a value.
pub(super) fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len().saturating_add(value.len()).saturating_add(8));
    text(&mut out, 1, name);
    bytes(&mut out, 2, value);
    out
}

fn extensions(out: &mut Vec<u8>, number: u32, node: &Node) {
    for (name, value) in node.members() {
        if name.starts_with("x-") {
            bytes(out, number, &named(name, &any(value)));
        }
    }
}

fn any(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 2, &yaml::write(node));
    out
}

fn each(out: &mut Vec<u8>, number: u32, node: &Node, encode: impl Fn(&Node) -> Vec<u8>) {
    for item in node.items() {
        bytes(out, number, &encode(item));
    }
}

fn map(node: &Node, encode: impl Fn(&Node) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in node.members() {
        bytes(&mut out, 1, &named(name, &encode(value)));
    }
    out
}

fn map_of_texts(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in node.members() {
        let mut item = Vec::new();
        text(&mut item, 1, name);
        text(&mut item, 2, &scalar(value));
        bytes(&mut out, 1, &item);
    }
    out
}

fn texts(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    Kind::Texts.encode(&mut out, 1, Some(node));
    out
}

fn paths(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    extensions(&mut out, 1, node);
    for (name, value) in node.members() {
        if name.starts_with('/') {
            bytes(&mut out, 2, &named(name, &v2::PATH_ITEM.encode(value)));
        }
    }
    out
}

fn responses(node: &Node) -> Vec<u8> {
    let is_code = |name: &str| {
        name == "default" || name.len() == 3 && name.bytes().all(|b| b.is_ascii_digit())
    };
    let mut out = Vec::new();
    for (name, value) in node.members().iter().filter(|(name, _)| is_code(name)) {
        let response = reference_or(value, 1, |value| v2::RESPONSE.encode(value));
        bytes(&mut out, 1, &named(name, &response));
    }
    extensions(&mut out, 2, node);
    out
}

/// Encodes a choice between a value, in field `number`, and a reference, in
/// field 2.
fn reference_or(node: &Node, number: u32, encode: impl Fn(&Node) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    match node.get("$ref") {
        Some(_) => bytes(&mut out, 2, &v2::REFERENCE.encode(node)),
        None => bytes(&mut out, number, &encode(node)),
    }
    out
}

fn parameters_item(node: &Node) -> Vec<u8> {
    reference_or(node, 1, parameter)
}

fn parameter(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    let (choice, message) = match node.get("in").and_then(Node::text) {
        Some("body") => {
            bytes(&mut out, 1, &v2::BODY_PARAMETER.encode(node));
            return out;
        }
        Some("header") => (1, &v2::PLAIN_PARAMETER),
        Some("formData") => (2, &v2::EMPTIABLE_PARAMETER),
        Some("query") => (3, &v2::EMPTIABLE_PARAMETER),
        Some("path") => (4, &v2::PLAIN_PARAMETER),
        _ => return out,
    };
    let mut inner = Vec::new();
    bytes(&mut inner, choice, &message.encode(node));
    bytes(&mut out, 2, &inner);
    out
}

fn schema_item(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    if node.has("type", "file") {
        bytes(&mut out, 2, &v2::FILE_SCHEMA.encode(node));
    } else {
        bytes(&mut out, 1, &v2::SCHEMA.encode(node));
    }
    out
}

fn additional_properties(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    match node {
        Node::Bool(value) => {
            tag(&mut out, 2, 0);
            out.push(u8::from(*value));
        }
        schema => bytes(&mut out, 1, &v2::SCHEMA.encode(schema)),
    }
    out
}

fn security_definition(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    let fits = |(kind, flow, ..): &&(&str, &str, u32, &Message)| {
        node.has("type", kind) && (flow.is_empty() || node.has("flow", flow))
    };
    if let Some((_, _, number, message)) = v2::SECURITY.iter().find(fits) {
        bytes(&mut out, *number, &message.encode(node));
    }
    out
}

/// Returns the text that gnostic takes from a scalar for a string field.
fn scalar(node: &Node) -> String {
    match node {
        Node::Text(text) => text.clone(),
        Node::Number(number) if !number.is_f64() => number.to_string(),
        _ => String::new(),
    }
}

fn flag(out: &mut Vec<u8>, number: u32, node: &Node) {
    if *node == Node::Bool(true) {
        tag(out, number, 0);
        out.push(1);
    }
}

fn int(out: &mut Vec<u8>, number: u32, node: &Node) {
    if let Node::Number(value) = node
        && let Some(value) = value.as_i64().filter(|value| *value != 0)
    {
        tag(out, number, 0);
        // protobuf writes int64 in two's complement.
        varint(out, value as u64);
    }
}

fn double(out: &mut Vec<u8>, number: u32, node: &Node) {
    if let Node::Number(value) = node
        && let Some(value) = value.as_f64().filter(|value| *value != 0.0)
    {
        tag(out, number, 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Writes a text field. An empty text is left out.
fn text(out: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        bytes(out, number, text.as_bytes());
    }
}

/// Writes a message or an item, even if it is empty.
pub(super) fn bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    tag(out, number, 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn tag(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    varint(out, u64::from(number << 3 | wire_type));
}

fn varint(out: &mut Vec<u8>, value: u64) {
    prost::encoding::encode_varint(value, out);
}
