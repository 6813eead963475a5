//! Header blocks of HTTP/2 (RFC 7541). Written blocks use no table and no Huffman
//! code, so any octets can be sent. Blocks to read may use both.

use std::collections::VecDeque;

use super::fields::{Field, Fields};
use super::huffman;

const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The size of an entry in addition to its octets.
const ENTRY: usize = 32;
const DEFAULT_SIZE: usize = 4096;

pub fn encode(fields: &[Field]) -> Vec<u8> {
    let mut block = Vec::new();
    for field in fields {
        block.push(0);
        for text in [&field.name, &field.raw] {
            write_integer(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

/// Writes a number with a prefix of seven bits.
fn write_integer(block: &mut Vec<u8>, number: usize) {
    const MOST: usize = 127;
    if number < MOST {
        block.push(number as u8);
        return;
    }
    block.push(MOST as u8);
    let mut rest = number - MOST;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}

pub struct Decoder {
    entries: VecDeque<Field>,
    most: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            most: DEFAULT_SIZE,
        }
    }
}

impl Decoder {
    /// Reads a whole block. Returns `None` if it has an error.
    pub fn decode(&mut self, mut block: &[u8]) -> Option<Fields> {
        let mut fields = Vec::new();
        while let Some(first) = block.first().copied() {
            match first {
                0x80.. => {
                    let index = read_integer(&mut block, 7)?;
                    fields.push(self.entry(index)?);
                }
                0x40.. => {
                    let field = self.literal(&mut block, 6)?;
                    fields.push(field.clone());
                    self.entries.push_front(field);
                    self.evict();
                }
                0x20.. => {
                    self.most = read_integer(&mut block, 5)?;
                    self.evict();
                }
                _ => fields.push(self.literal(&mut block, 4)?),
            }
        }
        Some(fields)
    }

    fn entry(&self, index: usize) -> Option<Field> {
        let index = index.checked_sub(1)?;
        match STATIC.get(index) {
            Some((name, value)) => Some(Field::new(name, value)),
            None => self.entries.get(index - STATIC.len()).cloned(),
        }
    }

    fn literal(&self, block: &mut &[u8], prefix: u8) -> Option<Field> {
        let name = match read_integer(block, prefix)? {
            0 => read_text(block)?,
            index => self.entry(index)?.name,
        };
        let raw = read_text(block)?;
        Some(Field { name, raw })
    }

    fn evict(&mut self) {
        let size = |field: &Field| field.name.len() + field.raw.len() + ENTRY;
        while self.entries.iter().map(size).sum::<usize>() > self.most {
            self.entries.pop_back();
        }
    }
}

fn read_text(block: &mut &[u8]) -> Option<Vec<u8>> {
    let is_coded = block.first()? & 0x80 != 0;
    let length = read_integer(block, 7)?;
    let (text, rest) = block.split_at_checked(length)?;
    *block = rest;
    match is_coded {
        true => huffman::decode(text),
        false => Some(text.to_vec()),
    }
}

fn read_integer(block: &mut &[u8], prefix: u8) -> Option<usize> {
    let (first, mut rest) = block.split_first()?;
    let most = (1_usize << prefix) - 1;
    let mut number = usize::from(*first) & most;
    if number == most {
        let mut shift = 0;
        loop {
            let (next, after) = rest.split_first()?;
            rest = after;
            number = number.checked_add(usize::from(next & 127).checked_shl(shift)?)?;
            shift += 7;
            if next & 128 == 0 {
                break;
            }
        }
    }
    *block = rest;
    Some(number)
}

#[test]
fn what_is_written_is_read() {
    let fields = vec![
        Field::new(":path", b"/a#<\xff"),
        Field::new("x-long", "y".repeat(70_000)),
        Field::new("x-empty", ""),
    ];
    let mut decoder = Decoder::default();
    assert_eq!(decoder.decode(&encode(&fields)), Some(fields));
    // The first request of RFC 7541, C.4.1, and its authority again, from the table.
    let block = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\xbe";
    let fields = decoder.decode(block).expect("a block");
    assert_eq!(fields[3], Field::new(":authority", "www.example.com"));
    assert_eq!(fields[4], fields[3]);
}
