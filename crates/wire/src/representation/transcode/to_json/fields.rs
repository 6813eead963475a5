//! Finds the value of each field of a message.

use super::super::NotTranscodable::{self, Malformed, Twice, UnknownField, WrongType};
use super::super::Result;
use super::super::wire::{self, Reader};
use crate::schema::{Field, Message};

/// The place of a field's value in its message. For a repeated field, it extends
/// from the first key to the end of the last value.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Finds the fields of a message, and returns a bit for each field that is set. It
/// is an error if a field is unknown, has another type, or occurs twice without
/// being repeated.
// It is the hottest loop of the writer, which is compiled twice. Without the attribute,
// the loop is inlined late and whole objects take 2 % longer.
#[inline(always)]
pub(super) fn find_fields(message: &Message, bytes: &[u8], slots: &mut [Slot]) -> Result<u64> {
    let mut set = 0u64;
    let mut reader = Reader::new(bytes);
    while !reader.is_at_end() {
        let key_at = reader.at();
        let tag = reader.varint()?;
        let position = message
            .position(tag)
            .ok_or_else(|| not_a_field(message, tag))?;
        let slot = slots.get_mut(position).ok_or(UnknownField)?;
        let mut start = reader.at();
        match tag & 7 {
            wire::LENGTH => {
                let length = reader.content()?.len();
                start = reader.at().saturating_sub(length);
            }
            wire::VARINT => drop(reader.varint()?),
            _ => drop(reader.fixed64()?),
        }
        let bit = 1u64 << position;
        // No position is beyond the length of the whole message, which fits.
        if set & bit == 0 {
            let repeated = message.repeated() & bit != 0;
            slot.start = if repeated { key_at } else { start } as u32;
        } else if message.repeated() & bit == 0 {
            return Err(Twice);
        }
        slot.end = reader.at() as u32;
        set |= bit;
    }
    Ok(set)
}

/// Returns the error for a tag that belongs to no field. A field of the same number
/// may have another type, for example a packed list of numbers, which Kubernetes
/// never has.
#[cold]
fn not_a_field(message: &Message, tag: u64) -> NotTranscodable {
    let known = |field: &Field| u64::from(field.number) == tag >> 3;
    if message.fields().iter().any(known) {
        WrongType
    } else {
        UnknownField
    }
}

#[inline]
pub(super) fn skip(tag: u64, reader: &mut Reader<'_>) -> Result {
    match tag & 7 {
        wire::LENGTH => drop(reader.content()?),
        wire::VARINT => drop(reader.varint()?),
        wire::FIXED64 => drop(reader.fixed64()?),
        _ => return Err(Malformed),
    }
    Ok(())
}

#[inline]
pub(super) fn slice(bytes: &[u8], slot: Slot) -> Result<&[u8]> {
    bytes
        .get(slot.start as usize..slot.end as usize)
        .ok_or(Malformed)
}

/// Returns the positions of the set bits, from the lowest on.
#[inline]
pub(super) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let below = bits.checked_sub(1)?;
        let at = bits.trailing_zeros() as usize;
        bits &= below;
        Some(at)
    })
}
