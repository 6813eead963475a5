//! Reads protobuf's wire format from a slice.

use super::NotTranscodable::{self, Malformed};
use super::Result;

/// Reads fields one after another. Unlike [`crate::api::protobuf_wire`], it
/// keeps positions and treats truncated input as an error.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Wire types.
pub(crate) const VARINT: u64 = 0;
pub(crate) const FIXED64: u64 = 1;
pub(crate) const LENGTH: u64 = 2;

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Makes a reader for a part of a message.
    pub(crate) fn within(bytes: &'a [u8], start: u32, end: u32) -> Result<Self> {
        let bytes = bytes.get(..end as usize).ok_or(Malformed)?;
        let at = start as usize;
        Ok(Self { bytes, at })
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or(Malformed)?;
        self.at = self.at.saturating_add(1);
        Ok(byte)
    }

    // Most varints have one byte, and each value has two varints. A function call
    // here would take an eighth of the time of transcoding.
    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.long_varint(u64::from(first & 0x7f))
    }

    #[inline(never)]
    fn long_varint(&mut self, first: u64) -> Result<u64> {
        let mut value = first;
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// Reads the content of a string, bytes or a message.
    #[inline(always)]
    pub(crate) fn content(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        let end = self.at.checked_add(length).ok_or(Malformed)?;
        let content = self.bytes.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(content)
    }

    pub(crate) fn fixed64(&mut self) -> Result<u64> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let bytes = rest.first_chunk::<8>().ok_or(Malformed)?;
        self.at = self.at.saturating_add(8);
        Ok(u64::from_le_bytes(*bytes))
    }
}

/// Reads the fields of a small message: only varints or contents, each at most
/// once. The types with their own JSON form are such messages.
pub(crate) fn read_small<'a>(
    bytes: &'a [u8],
    mut field: impl FnMut(u64, Small<'a>) -> Result,
) -> Result {
    let mut reader = Reader::new(bytes);
    let mut seen = 0u64;
    while !reader.is_at_end() {
        let tag = reader.varint()?;
        let number = tag >> 3;
        let value = match tag & 7 {
            VARINT => Small::Varint(reader.varint()?),
            LENGTH => Small::Content(reader.content()?),
            _ => return Err(NotTranscodable::UnknownField),
        };
        let bit = 1u64 << (number & 63);
        if number > 63 || seen & bit != 0 {
            return Err(NotTranscodable::Twice);
        }
        seen |= bit;
        field(number, value)?;
    }
    Ok(())
}

pub(crate) enum Small<'a> {
    Varint(u64),
    Content(&'a [u8]),
}

/// Keeps the low bits of a varint of any size, as Go's generated decoders do.
pub(crate) fn int32(value: u64) -> i32 {
    value as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        for (bytes, expected) in [
            (&[][..], Err(Malformed)),
            (&[5], Ok(5)),
            (&[0xac, 2], Ok(300)),
            (&[0x80], Err(Malformed)),
            (&[0xff; 10], Err(Malformed)),
            (&[0x80; 12], Err(Malformed)),
            (&largest, Ok(u64::MAX)),
        ] {
            assert_eq!(Reader::new(bytes).varint(), expected, "{bytes:?}");
        }
        assert_eq!(Reader::new(b"\x03ab").content(), Err(Malformed));
        assert_eq!(Reader::new(&largest).content(), Err(Malformed));
        assert_eq!(Reader::new(b"\x02abc").content(), Ok(&b"ab"[..]));
    }
}
