//! Reads protobuf messages field by field, without building them. Fields of any
//! type can be skipped.
//!
//! Source: the Protocol Buffers encoding specification.

use bytes::BufMut;
use prost::encoding::{self, WireType};

/// The most bytes of a varint.
const MAX_VARINT_BYTES: usize = 10;

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer, a boolean or an enum.
    Varint(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// A string, bytes or message that is truncated.
    Cut(&'a [u8]),
    /// A number of fixed width. Nothing here reads such numbers.
    Fixed,
}

/// The bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf")]
pub struct Malformed;

/// Returns the varint at the start of `bytes`, and its number of bytes. `None` if
/// it is truncated. `prost` has a slower version of this, which does not
/// distinguish a truncated varint from one that is too long.
pub fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Malformed> {
    let mut value = 0u64;
    // The last shift is by 63, within the number's width.
    for ((taken, shift), byte) in (1..).zip((0..64u32).step_by(7)).zip(bytes) {
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << shift;
        if shifted >> shift != bits {
            return Err(Malformed);
        }
        value |= shifted;
        if byte & 0x80 == 0 {
            return Ok(Some((value, taken)));
        }
    }
    if bytes.len() >= MAX_VARINT_BYTES {
        return Err(Malformed);
    }
    Ok(None)
}

/// The fields of a message, in their order. The last field of a truncated
/// message is a [`Value::Cut`] or is missing.
#[derive(Clone, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads the fields of this message.
    pub fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// Returns the bytes after the fields that were given.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn read(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
        let Some((key, taken)) = varint(self.0)? else {
            self.0 = &[];
            return Ok(None);
        };
        let rest = self.0.get(taken..).unwrap_or_default();
        let number = key >> 3;
        let (value, taken) = match key & 7 {
            0 => match varint(rest)? {
                Some((value, taken)) => (Value::Varint(value), taken),
                None => {
                    self.0 = &[];
                    return Ok(None);
                }
            },
            1 => (Value::Fixed, 8),
            5 => (Value::Fixed, 4),
            2 => match varint(rest)? {
                Some((length, taken)) => {
                    let length = usize::try_from(length).map_err(|_| Malformed)?;
                    let content = rest.get(taken..).unwrap_or_default();
                    match content.get(..length) {
                        Some(bytes) => (Value::Bytes(bytes), taken.saturating_add(length)),
                        None => (Value::Cut(content), rest.len()),
                    }
                }
                None => {
                    self.0 = &[];
                    return Ok(None);
                }
            },
            // Groups are deprecated, and the Kubernetes API has none.
            _ => return Err(Malformed),
        };
        self.0 = rest.get(taken..).unwrap_or_default();
        Ok(Some((number, value)))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.0 = &[];
        }
        read.transpose()
    }
}

fn varint_len(value: usize) -> usize {
    encoding::encoded_len_varint(value as u64)
}

pub(crate) fn put_varint(value: usize, out: &mut impl BufMut) {
    encoding::encode_varint(value as u64, out);
}

/// Writes the key and the length of a string, bytes or message. `number` is at
/// most 15.
pub(crate) fn put_prefix(number: u8, length: usize, out: &mut impl BufMut) {
    encoding::encode_key(number.into(), WireType::LengthDelimited, out);
    put_varint(length, out);
}

/// Writes a string, bytes or message. `number` is at most 15.
pub fn put_bytes(number: u8, value: &[u8], out: &mut impl BufMut) {
    put_prefix(number, value.len(), out);
    out.put_slice(value);
}

/// Returns the number of bytes of the key and the length before a content of this
/// length. The field's number is at most 15.
pub fn prefix_len(length: usize) -> usize {
    varint_len(length).saturating_add(1)
}

/// Returns the number of bytes of a length-delimited field whose content has
/// this length.
pub(crate) fn field_len(length: usize) -> usize {
    prefix_len(length).saturating_add(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn varints() {
        for (bytes, expected) in [
            (&[][..], Ok(None)),
            (&[0x05], Ok(Some((5, 1)))),
            (&[0xac, 0x02, 0xff], Ok(Some((300, 2)))),
            (&[0x80], Ok(None)),
            (&[0xff; 10], Err(Malformed)),
            (&[0x80; 12], Err(Malformed)),
        ] {
            assert_eq!(varint(bytes), expected, "{bytes:?}");
        }
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(varint(&largest), Ok(Some((u64::MAX, 10))));
    }

    #[test]
    fn what_is_written_is_read() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, usize::MAX] {
            let mut out = Vec::new();
            put_varint(value, &mut out);
            assert_eq!(out.len(), varint_len(value));
            assert_eq!(varint(&out), Ok(Some((value as u64, out.len()))));
        }
        let mut out = Vec::new();
        put_bytes(2, &[b'x'; 200], &mut out);
        assert_eq!(out.len(), 200 + prefix_len(200));
        let fields: Vec<_> = Fields::new(&out).map(Result::unwrap).collect();
        assert_eq!(fields, [(2, Value::Bytes(&[b'x'; 200]))]);
    }

    #[test]
    fn fields_in_their_order() {
        // The fields are 1: "ab", 2: 300, 3: fixed64, 4: fixed32, 5: "xyz",
        // truncated.
        let message = b"\x0a\x02ab\x10\xac\x02\x1912345678\x251234\x2a\x03xy";
        let fields: Vec<_> = Fields::new(message).map(Result::unwrap).collect();
        assert_eq!(
            fields,
            [
                (1, Value::Bytes(b"ab")),
                (2, Value::Varint(300)),
                (3, Value::Fixed),
                (4, Value::Fixed),
                (5, Value::Cut(b"xy")),
            ]
        );
        // A group.
        assert!(Fields::new(b"\x0b\x0c").any(|f| f.is_err()));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(Fields::new(&bytes).count() <= bytes.len());
        }
    }
}
