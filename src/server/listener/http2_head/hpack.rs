//! Reads and writes blocks of fields (RFC 7541, 3, 5 and 6).

use std::sync::Arc;

use super::field::Field;
use super::huffman;
use super::table::{Found, Table};

/// The most octets of a number after its prefix. Go's server and h2 have the same
/// limit.
const NUMBER_OCTETS: u32 = 5;

/// Reads blocks, one after the other. They share a table, which is kept even if
/// their requests are refused.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    table: Table,
}

impl Decoder {
    /// Calls `found` with each field of a block. Returns `None` if the block is not
    /// HPACK, which ends the connection.
    pub(super) fn decode(&mut self, mut block: &[u8], mut found: impl FnMut(Found)) -> Option<()> {
        let mut may_resize = true;
        let mut room = (Vec::new(), Vec::new());
        while let Some(first) = block.first().copied() {
            match first {
                0x80.. => found(self.table.get(number(&mut block, 7)?)?),
                0x40.. => {
                    let field = Arc::new(self.literal(&mut block, 6, &mut room)?);
                    self.table.insert(field.clone());
                    found(Found::Other(field));
                }
                0x20.. if may_resize => {
                    self.table.resize(number(&mut block, 5)?)?;
                    continue;
                }
                0x20.. => return None,
                _ => {
                    let field = self.literal(&mut block, 4, &mut room)?;
                    found(Found::Other(Arc::new(field)));
                }
            }
            may_resize = false;
        }
        Some(())
    }

    /// Reads a field that is written as text. `name` and `value` are buffers for it.
    fn literal(
        &self,
        block: &mut &[u8],
        prefix: u32,
        (name, value): &mut (Vec<u8>, Vec<u8>),
    ) -> Option<Field> {
        let named = match number(block, prefix)? {
            0 => None,
            index => Some(self.table.get(index)?),
        };
        if named.is_none() {
            text(block, name)?;
        }
        text(block, value)?;
        let name = named.as_ref().map_or(&**name, |named| &named.field().name);
        Some(Field::new(name, value))
    }
}

/// Reads a text, and replaces the contents of `into` by it.
fn text(block: &mut &[u8], into: &mut Vec<u8>) -> Option<()> {
    let is_coded = block.first()? & 0x80 != 0;
    let length = number(block, 7)?;
    let (read, rest) = block.split_at_checked(length)?;
    *block = rest;
    into.clear();
    if is_coded {
        return huffman::decode(read, into);
    }
    into.extend_from_slice(read);
    Some(())
}

fn number(block: &mut &[u8], prefix: u32) -> Option<usize> {
    let (first, mut rest) = block.split_first()?;
    let most = 0xff_u8 >> 8_u32.saturating_sub(prefix);
    let mut number = usize::from(first & most);
    if number == usize::from(most) {
        let mut is_last = false;
        for octet in 0..NUMBER_OCTETS {
            let (next, after) = rest.split_first()?;
            rest = after;
            let part = usize::from(next & 0x7f).checked_shl(octet.saturating_mul(7))?;
            number = number.checked_add(part)?;
            is_last = next & 0x80 == 0;
            if is_last {
                break;
            }
        }
        is_last.then_some(())?;
    }
    *block = rest;
    Some(number)
}

/// Writes a field as text, without any table.
pub(super) fn write(name: &[u8], value: &[u8], block: &mut Vec<u8>) {
    block.push(0);
    for text in [name, value] {
        write_length(text.len(), block);
        block.extend_from_slice(text);
    }
}

fn write_length(length: usize, block: &mut Vec<u8>) {
    const MAX_PREFIX: u8 = 0x7f;
    let Some(mut rest) = length.checked_sub(usize::from(MAX_PREFIX)) else {
        block.push(u8::try_from(length).unwrap_or(MAX_PREFIX));
        return;
    };
    block.push(MAX_PREFIX);
    loop {
        let low = u8::try_from(rest & 0x7f).unwrap_or(MAX_PREFIX);
        rest >>= 7;
        block.push(low | if rest > 0 { 0x80 } else { 0 });
        if rest == 0 {
            return;
        }
    }
}
