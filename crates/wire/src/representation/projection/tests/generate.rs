//! Random messages of any kind, as protobuf.

use prost::encoding::encode_varint;

use crate::schema::{Field, Form, Kind, Message, Schema, Shape};

/// Random numbers (splitmix64). The same seed gives the same numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as usize % limit
    }

    pub(super) fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in 1..items.len() {
            let other = self.below(at + 1);
            items.swap(at, other);
        }
    }
}

/// The levels of messages in a generated one.
const LEVELS: usize = 7;
const TEXTS: &[&str] = &["", "a", "nginx:1.27", "x<y>&\"\n", "é\u{2028}", "metadata"];
const KEYS: &[&str] = &["a", "b.c/d", "<k>", "é", "name", ""];
const QUANTITIES: &[&str] = &["0", "1500m", "1.5Gi", "7", "1000"];
const OPAQUE: &[&str] = &[
    r#"{"a":{"b":[{"c":1},{"c":{"d":null}},2]},"f:x":{}}"#,
    r#" { "a" : [ [ { "b" : "<" } ] ] , "name" : "\u00e9" } "#,
    "{}",
    "null",
];

/// Returns a message in which random fields are set.
pub(super) fn message(of: &Message, random: &mut Random) -> Vec<u8> {
    object(of, LEVELS, random)
}

fn object(of: &Message, levels: usize, random: &mut Random) -> Vec<u8> {
    let mut fields = Vec::new();
    for field in of.fields() {
        let is_message = matches!(field.kind, Kind::Message(_));
        // The object itself and its parts have most of their fields, deeper messages few.
        let set = match LEVELS - levels {
            0 | 1 => random.below(4) != 0,
            _ => random.below(3) == 0,
        };
        if set && (levels > 1 || !is_message) {
            set_field(field, levels, random, &mut fields);
        }
    }
    // The values of lists and maps then have others between them.
    if random.below(2) == 0 {
        random.shuffle(&mut fields);
    }
    fields.concat()
}

fn set_field(field: &Field, levels: usize, random: &mut Random, fields: &mut Vec<Vec<u8>>) {
    match field.shape {
        Shape::One | Shape::Optional | Shape::Inline => {
            fields.push(with_key(field, &value(field.kind, levels, random)));
        }
        Shape::List => {
            for _ in 0..1 + random.below(3) {
                fields.push(with_key(field, &value(field.kind, levels, random)));
            }
        }
        Shape::Map => {
            let mut keys = KEYS.to_vec();
            random.shuffle(&mut keys);
            for key in &keys[..1 + random.below(3)] {
                let mut entry = content(0x0a, key.as_bytes());
                if random.below(5) != 0 {
                    entry.push(0x12);
                    entry.extend(value(field.kind, levels, random));
                }
                fields.push(with_key(field, &prefixed(&entry)));
            }
        }
    }
}

fn with_key(field: &Field, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_varint(field.tag(), &mut out);
    out.extend_from_slice(value);
    out
}

/// Returns a value as it comes after its key.
fn value(kind: Kind, levels: usize, random: &mut Random) -> Vec<u8> {
    match kind {
        Kind::Bool => vec![random.below(2) as u8],
        Kind::Int32 | Kind::Int64 => varint(*random.of(&[0, 1, 300, u64::MAX])),
        Kind::Double => random.of(&[0.0, 1.5f64, -1e21]).to_le_bytes().to_vec(),
        Kind::String => prefixed(random.of(TEXTS).as_bytes()),
        Kind::Bytes => prefixed(random.of(&["", "\0\u{ff}", "abc"]).as_bytes()),
        Kind::Message(id) => {
            let of = Schema::builtin().message_at(id).unwrap();
            prefixed(&formed(of, levels - 1, random))
        }
    }
}

fn formed(of: &Message, levels: usize, random: &mut Random) -> Vec<u8> {
    let schema = |id, random: &mut Random| {
        let of = Schema::builtin().message_at(id).unwrap();
        object(of, levels.saturating_sub(1), random)
    };
    match of.form() {
        Form::Object => object(of, levels, random),
        Form::Strings => {
            let texts = (0..random.below(3)).map(|_| content(0x0a, random.of(TEXTS).as_bytes()));
            texts.collect::<Vec<_>>().concat()
        }
        Form::Time | Form::MicroTime if random.below(4) == 0 => Vec::new(),
        Form::Time | Form::MicroTime => [&[8][..], &varint(1_700_000_000), &[16, 0]].concat(),
        Form::Quantity => content(0x0a, random.of(QUANTITIES).as_bytes()),
        Form::IntOrString => {
            let kind = random.below(2) as u8;
            [&[8, kind, 16, 80], &content(0x1a, b"http")[..]].concat()
        }
        Form::RawExtension | Form::FieldsV1 | Form::Json => match random.below(4) {
            0 => Vec::new(),
            _ => content(0x0a, random.of(OPAQUE).trim().as_bytes()),
        },
        Form::SchemaOrBool(_) if random.below(2) == 0 => vec![8, random.below(2) as u8],
        Form::SchemaOrBool(of) => [&[8, 1], &content(0x12, &schema(of, random))[..]].concat(),
        Form::SchemaOrArray(of) => match random.below(3) {
            0 => content(0x0a, &schema(of, random)),
            count => {
                let schemas = (0..count).map(|_| content(0x12, &schema(of, random)));
                schemas.collect::<Vec<_>>().concat()
            }
        },
        Form::SchemaOrStrings(of) => match random.below(2) {
            0 => content(0x0a, &schema(of, random)),
            _ => content(0x12, random.of(TEXTS).as_bytes()),
        },
    }
}

fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode_varint(value, &mut out);
    out
}

/// Returns the content after its length.
fn prefixed(content: &[u8]) -> Vec<u8> {
    let mut out = varint(content.len() as u64);
    out.extend_from_slice(content);
    out
}

fn content(key: u8, content: &[u8]) -> Vec<u8> {
    [&[key][..], &prefixed(content)].concat()
}
