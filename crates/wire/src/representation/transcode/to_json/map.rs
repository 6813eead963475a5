//! Writes protobuf's maps, which are lists of entries, as JSON objects.

use super::super::NotTranscodable::{Twice, UnknownField, Unsupported};
use super::super::wire::Reader;
use super::super::{Result, text};
use super::Writer;
use super::fields::skip;
use super::filter::Filter;
use crate::schema::{Field, Kind};

impl Writer<'_> {
    /// Writes a map. Its keys are in order, as in Go's protobuf.
    pub(super) fn map<F: Filter>(
        &mut self,
        field: &Field,
        entries: Reader<'_>,
        room: usize,
        filter: F,
    ) -> Result {
        let start = self.out.len();
        let mut last: Option<&[u8]> = None;
        let mut reader = entries;
        self.out.push(b'{');
        while !reader.is_at_end() {
            let tag = reader.varint()?;
            if tag != field.tag() {
                skip(tag, &mut reader)?;
                continue;
            }
            let (key, value) = entry(reader.content()?)?;
            if last.is_some_and(|last| last >= key) {
                self.out.truncate(start);
                return self.unordered_map(field, entries, room, filter);
            }
            last = Some(key);
            self.entry(field, key, value, room, filter)?;
        }
        self.close(b'}');
        Ok(())
    }

    fn unordered_map<F: Filter>(
        &mut self,
        field: &Field,
        mut reader: Reader<'_>,
        room: usize,
        filter: F,
    ) -> Result {
        let mut sorted = Vec::new();
        while !reader.is_at_end() {
            let tag = reader.varint()?;
            if tag == field.tag() {
                sorted.push(entry(reader.content()?)?);
            } else {
                skip(tag, &mut reader)?;
            }
        }
        sorted.sort_unstable_by_key(|(key, _)| *key);
        if sorted
            .windows(2)
            .any(|two| matches!(two, [(a, _), (b, _)] if a == b))
        {
            return Err(Twice);
        }
        self.out.push(b'{');
        for (key, value) in sorted {
            self.entry(field, key, value, room, filter)?;
        }
        self.close(b'}');
        Ok(())
    }

    fn entry<F: Filter>(
        &mut self,
        field: &Field,
        key: &[u8],
        value: &[u8],
        room: usize,
        filter: F,
    ) -> Result {
        let Some(filter) = filter.member(key) else {
            return Ok(());
        };
        text::write(key, self.out);
        self.out.push(b':');
        match field.kind {
            Kind::String => text::write(value, self.out),
            Kind::Bytes => self.base64(value),
            Kind::Message(of) => {
                let of = self.message_at(of)?;
                self.message(of, value, b"", room, filter)?;
            }
            // No map of Kubernetes has such values.
            Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double => return Err(Unsupported),
        }
        self.out.push(b',');
        Ok(())
    }
}

/// Returns the key and the value of a map's entry. A missing one is empty.
fn entry(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let (mut key, mut value) = (None, None);
    let mut reader = Reader::new(bytes);
    while !reader.is_at_end() {
        let part = match reader.varint()? {
            0x0a => &mut key,
            0x12 => &mut value,
            _ => return Err(UnknownField),
        };
        if part.replace(reader.content()?).is_some() {
            return Err(Twice);
        }
    }
    Ok((key.unwrap_or_default(), value.unwrap_or_default()))
}
