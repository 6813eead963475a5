//! Writes JSON objects with arbitrary keys as protobuf's maps, which are lists of
//! entries.

use prost::encoding::encode_varint;

use super::super::NotTranscodable::{Malformed, Twice, WrongType};
use super::super::Result;
use super::super::wire::Reader;
use super::{KEY, Target, VALUE, Writer, both, field_len};
use crate::schema::{Field, Kind};

impl Writer<'_> {
    /// Reads an object, and writes an entry for each key, in the order of the keys.
    pub(super) fn map(&mut self, field: &Field, target: Target) -> Result {
        if !self.json.take(b'{') {
            return Err(WrongType);
        }
        if self.json.take(b'}') {
            return Ok(());
        }
        let start = self.buffer(target).len();
        let (mut last, mut ordered) = (None, true);
        loop {
            let key = self.json.key()?;
            self.entry(field, &key, target)?;
            ordered &= last.is_none_or(|last| last < key);
            last = Some(key);
            if !self.json.more(b'}')? {
                break;
            }
        }
        if ordered {
            Ok(())
        } else {
            self.sort_entries(start, target)
        }
    }

    fn entry(&mut self, field: &Field, key: &[u8], target: Target) -> Result {
        // The value waits in the other buffer for the entry's length.
        let waiting = self.buffer(target.other()).len();
        match field.kind {
            // Null is nil in Go, which is written as an entry without a value.
            Kind::Bytes => {
                if let Some(bytes) = self.base64()? {
                    self.content(Some(VALUE), &bytes, target.other());
                }
            }
            kind => self.value(kind, VALUE, target.other())?,
        }
        let (out, other) = both(&mut self.buffers, target);
        let value = other.get(waiting..).unwrap_or_default();
        let length = field_len(KEY, key.len()).saturating_add(value.len());
        encode_varint(field.tag(), out);
        encode_varint(length as u64, out);
        encode_varint(KEY, out);
        encode_varint(key.len() as u64, out);
        out.extend_from_slice(key);
        out.extend_from_slice(value);
        other.truncate(waiting);
        Ok(())
    }

    fn sort_entries(&mut self, start: usize, target: Target) -> Result {
        let out = self.buffer(target);
        let entries = out.split_off(start);
        let mut reader = Reader::new(&entries);
        let mut sorted = Vec::new();
        while !reader.is_at_end() {
            let from = reader.at();
            reader.varint()?;
            let mut entry = Reader::new(reader.content()?);
            entry.varint()?;
            let whole = entries.get(from..reader.at()).ok_or(Malformed)?;
            sorted.push((entry.content()?, whole));
        }
        sorted.sort_unstable_by_key(|(key, _)| *key);
        if sorted
            .windows(2)
            .any(|two| matches!(two, [(a, _), (b, _)] if a == b))
        {
            return Err(Twice);
        }
        sorted
            .iter()
            .for_each(|(_, whole)| out.extend_from_slice(whole));
        Ok(())
    }
}
