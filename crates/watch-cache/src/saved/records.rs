//! The objects and events in a file's blocks.
//!
//! ```text
//! what (1) │ encoding (1) │ age in ms (8) │ length (4) │ the item's bytes
//! ```

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kubernetes_wire::representation::{Encoding, Envelope};

use super::Refusal;
use crate::store::{Change, FieldTable, Gatherer, KeyScope, SavedEvent, SavedState, StoredObject};

/// An object of the state that precedes the events.
const OBJECT_TAG: u8 = 0;
/// An object that was added or modified.
const PUT_TAG: u8 = 1;
const DELETED_TAG: u8 = 2;

/// The content of a file besides its header.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) objects: Gatherer,
    pub(crate) events: Vec<SavedEvent>,
}

/// Calls `put` with each record of a state.
pub(super) fn write(
    state: &SavedState,
    envelope: &Envelope,
    now: Instant,
    mut put: impl FnMut(&[u8], &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut one = |what: u8, object: &StoredObject, age: u64| {
        let encoding = object.encoding();
        let item = object.item(encoding, envelope);
        let item = item.ok_or_else(|| io::Error::other("an object cannot be written"))?;
        let length = u32::try_from(item.len()).map_err(io::Error::other)?;
        let start = [
            &[what, encoding as u8][..],
            &age.to_le_bytes(),
            &length.to_le_bytes(),
        ]
        .concat();
        put(&start, &item)
    };
    for object in state.base.iter(&KeyScope::All) {
        one(OBJECT_TAG, object, 0)?;
    }
    for event in &state.events {
        let age = now.saturating_duration_since(event.recorded_at);
        let what = match event.change {
            Change::Deleted => DELETED_TAG,
            Change::Added | Change::Modified => PUT_TAG,
        };
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        one(what, &event.object, age)?;
    }
    Ok(())
}

/// Decodes records. Events follow objects, and their versions increase.
pub(super) struct Decoder<'a> {
    pub(super) fields: &'a FieldTable,
    pub(super) envelope: &'a Envelope,
    /// The version of the last event, or of the objects.
    pub(super) reached: u64,
    /// The newest version that an event may have.
    pub(super) newest: u64,
    pub(super) now: Instant,
    /// The time that has passed since the file was saved.
    pub(super) passed: Duration,
}

impl Decoder<'_> {
    /// Adds the records of a block. Returns the bytes that they take in memory.
    pub(super) fn block(&mut self, block: &[u8], into: &mut Loaded) -> Result<usize, Refusal> {
        let mut rest = block;
        let mut bytes: usize = 0;
        while !rest.is_empty() {
            let (record, after) = split(rest).ok_or_else(|| malformed("a record ends early"))?;
            rest = after;
            bytes = bytes.saturating_add(self.record(record, into)?);
        }
        Ok(bytes)
    }

    fn record(&mut self, record: Record<'_>, into: &mut Loaded) -> Result<usize, Refusal> {
        let encoding = match record.encoding {
            0 => Encoding::Json,
            1 => Encoding::Protobuf,
            _ => return Err(malformed("an unknown encoding")),
        };
        // The item gets its own allocation: a slice would keep the whole block.
        let item = Bytes::copy_from_slice(record.item);
        let object = StoredObject::decode(encoding, item, self.fields, self.envelope)
            .map_err(|error| malformed(&error.to_string()))?;
        let (version, size) = (object.resource_version, object.size());
        match record.what {
            OBJECT_TAG if into.events.is_empty() && version <= self.reached => {
                into.objects.push(object);
            }
            PUT_TAG | DELETED_TAG if self.reached < version && version <= self.newest => {
                self.reached = version;
                into.events.push(SavedEvent {
                    deleted: record.what == DELETED_TAG,
                    object,
                    recorded_at: self.recorded_at(record.age),
                });
            }
            _ => return Err(malformed("a record that does not follow")),
        }
        Ok(size)
    }

    /// Returns the time of an event. An `Instant` cannot express a time before the
    /// machine's start. An event from before it counts as new, and stays longer.
    fn recorded_at(&self, age: u64) -> Instant {
        let age = Duration::from_millis(age).saturating_add(self.passed);
        self.now.checked_sub(age).unwrap_or(self.now)
    }
}

struct Record<'b> {
    what: u8,
    encoding: u8,
    age: u64,
    item: &'b [u8],
}

fn split(block: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (&[what, encoding], rest) = block.split_first_chunk()?;
    let (age, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (item, rest) = rest.split_at_checked(length)?;
    let record = Record {
        what,
        encoding,
        age: u64::from_le_bytes(*age),
        item,
    };
    Some((record, rest))
}

fn malformed(what: &str) -> Refusal {
    Refusal::Malformed(what.to_owned())
}
