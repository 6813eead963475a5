//! The projection of JSON. It reads the text once, and ends early if nothing that
//! follows is wanted.

use super::super::transcode::json::Cursor;
use super::super::transcode::{MAX_DEPTH, NotTranscodable, Result, close, text};
use super::{Members, Projection};

/// Appends the wanted parts of a JSON value. `added` are further members of an object,
/// which come first.
pub(in super::super) fn write(
    json: &[u8],
    added: &[u8],
    projection: &Projection,
    out: &mut Vec<u8>,
) -> Result {
    let json = Cursor::new(json);
    Reader { json, out }.value(added, projection, MAX_DEPTH, true)
}

struct Reader<'a> {
    json: Cursor<'a>,
    out: &'a mut Vec<u8>,
}

impl Reader<'_> {
    /// Reads the next value. `room` is the number of levels of arrays and objects that
    /// it may have. If the value is the `last` one, its end need not be found.
    fn value(&mut self, added: &[u8], projection: &Projection, room: usize, last: bool) -> Result {
        let first = self.json.peek();
        if first == b'[' && !projection.is_whole() {
            let room = room.checked_sub(1).ok_or(NotTranscodable::TooDeep)?;
            self.json.take(first);
            self.out.push(first);
            return self.elements(projection.elements(), room);
        }
        let Some(members) = projection.members().filter(|_| first == b'{') else {
            self.out.extend_from_slice(self.json.literal()?);
            return Ok(());
        };
        let room = room.checked_sub(1).ok_or(NotTranscodable::TooDeep)?;
        self.json.take(first);
        self.out.push(first);
        let written = projection.write_wanted(added, self.out);
        let missing = members.len().saturating_sub(written);
        self.members(members, missing, room, last)
    }

    /// Reads an array, whose bracket is read.
    fn elements(&mut self, projection: &Projection, room: usize) -> Result {
        let mut more = !self.json.take(b']');
        while more {
            self.value(b"", projection, room, false)?;
            self.out.push(b',');
            more = self.json.more(b']')?;
        }
        close(b']', self.out);
        Ok(())
    }

    /// Reads an object, whose brace is read. `missing` is the number of wanted members
    /// that it may have.
    fn members(&mut self, wanted: &Members, missing: usize, room: usize, last: bool) -> Result {
        let mut missing = missing;
        let done = last && missing == 0;
        let mut more = !done && !self.json.take(b'}');
        while more {
            let key = self.json.key()?;
            let Some(below) = wanted.get(&*key) else {
                self.json.literal()?;
                more = self.json.more(b'}')?;
                continue;
            };
            text::write(&key, self.out);
            self.out.push(b':');
            missing = missing.saturating_sub(1);
            let last = last && missing == 0;
            self.value(b"", below, room, last)?;
            self.out.push(b',');
            more = !last && self.json.more(b'}')?;
        }
        close(b'}', self.out);
        Ok(())
    }
}
