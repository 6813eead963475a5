//! The file of a store, as a sequence of sealed blocks. `records.rs` has what is in
//! them.
//!
//! ```text
//! preamble │ header (JSON)      │ tag │ block │ tag │ … │ last block │ tag
//! magic,   │ cluster, release,  │     objects at one version, then the events
//! format   │ resource, versions │     that lead to the newest version
//! ```
//!
//! A tag is a SHA-256 checksum or, with a key, the tag of AES-256-GCM. Every tag
//! depends on the header and on the block's place. So a file cannot be cut, put
//! together from others, or given another resource's name. The contents of a file
//! are trusted as little as bytes from the wire.

use std::io::{self, Read, Write};

use ring::rand::{SecureRandom, SystemRandom};

use super::Refusal;
use super::header::Header;
use super::key::Key;
use super::seal::{BlockPosition, MAX_TAG_BYTES, SALT_BYTES, Seal};

const MAGIC: &[u8; 8] = b"apifront";

/// The version of the file format. Files of another version are refused.
pub(super) const FORMAT_VERSION: u16 = 1;

/// Magic, format, whether it is encrypted, salt, length of the header.
const PREAMBLE_BYTES: usize = 8 + 2 + 1 + SALT_BYTES + 4;

/// The most bytes of a header. It holds names and column descriptions.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// A block is written once it has this size. It is large enough for tags to cost
/// almost nothing, and small enough to be read at once.
const BLOCK_BYTES: usize = 256 << 10;

/// The most bytes of a block. A block may be one large object: the limit of a watch
/// event is 64 MiB.
const MAX_BLOCK_BYTES: usize = 72 << 20;

pub(super) struct BlockWriter<W> {
    out: W,
    seal: Seal,
    index: u64,
    block: Vec<u8>,
    written: u64,
}

impl<W: Write> BlockWriter<W> {
    pub(super) fn new(mut out: W, header: &Header, key: Option<&Key>) -> io::Result<Self> {
        let header = serde_json::to_vec(header)?;
        if header.len() > MAX_HEADER_BYTES {
            return Err(io::Error::other("the header is too long"));
        }
        let mut salt = [0; SALT_BYTES];
        SystemRandom::new()
            .fill(&mut salt)
            .map_err(|_| io::Error::other("no random numbers"))?;
        let mut start = Vec::with_capacity(PREAMBLE_BYTES.saturating_add(header.len()));
        start.extend_from_slice(MAGIC);
        start.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        start.push(u8::from(key.is_some()));
        start.extend_from_slice(&salt);
        start.extend_from_slice(&length(header.len())?.to_le_bytes());
        start.extend_from_slice(&header);
        let seal = Seal::new(key, &salt, &start).ok_or_else(|| io::Error::other("no key"))?;
        out.write_all(&start)?;
        let mut writer = Self {
            out,
            seal,
            index: 0,
            block: Vec::new(),
            written: start.len() as u64,
        };
        // The first tag belongs to the header: its block is empty.
        writer.put(&mut Vec::new(), false)?;
        Ok(writer)
    }

    /// Adds the record that `put` appends to the block.
    pub(super) fn record(
        &mut self,
        put: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        put(&mut self.block)?;
        if self.block.len() >= BLOCK_BYTES {
            self.flush(false)?;
        }
        Ok(())
    }

    /// Writes the last block. Returns the length of the file.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.flush(true)?;
        self.out.flush()?;
        Ok(self.written)
    }

    fn flush(&mut self, last: bool) -> io::Result<()> {
        if self.block.len() > MAX_BLOCK_BYTES {
            return Err(io::Error::other("an object is too large"));
        }
        let mut block = std::mem::take(&mut self.block);
        let start = [&[u8::from(last)][..], &length(block.len())?.to_le_bytes()].concat();
        self.out.write_all(&start)?;
        self.written = self.written.saturating_add(start.len() as u64);
        self.put(&mut block, last)?;
        block.clear();
        self.block = block;
        Ok(())
    }

    fn put(&mut self, block: &mut Vec<u8>, last: bool) -> io::Result<()> {
        let index = self.index;
        self.seal.seal(BlockPosition { index, last }, block)?;
        self.index = index.saturating_add(1);
        self.written = self.written.saturating_add(block.len() as u64);
        self.out.write_all(block)
    }
}

fn length(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::Error::other("too long"))
}

/// Reads a file. No length in it may exceed the bytes that are left.
pub(super) struct BlockReader<R> {
    input: R,
    seal: Seal,
    index: u64,
    /// The bytes of the file that are not read yet.
    left: u64,
    ended: bool,
}

impl<R: Read> BlockReader<R> {
    /// Reads the header of a file of `length` bytes.
    pub(super) fn open(
        mut input: R,
        length: u64,
        key: Option<&Key>,
    ) -> Result<(Header, Self), Refusal> {
        let mut left = length;
        let mut start = take(&mut input, &mut left, PREAMBLE_BYTES)?;
        let (salt, header_bytes) = preamble(&start, key.is_some())?;
        if header_bytes > MAX_HEADER_BYTES {
            return Err(Refusal::Malformed("the header is too long".to_owned()));
        }
        let header = take(&mut input, &mut left, header_bytes)?;
        start.extend_from_slice(&header);
        let seal = Seal::new(key, &salt, &start).ok_or(Refusal::Key("the key cannot be used"))?;
        let mut reader = Self {
            input,
            seal,
            index: 0,
            left,
            ended: false,
        };
        reader.block(0, false)?;
        let header = serde_json::from_slice(&header)
            .map_err(|error| Refusal::Malformed(error.to_string()))?;
        Ok((header, reader))
    }

    /// Returns the next block. `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        if self.ended {
            return match self.left {
                0 => Ok(None),
                _ => Err(Refusal::Torn),
            };
        }
        let start = take(&mut self.input, &mut self.left, 5)?;
        let Some((&last, length)) = start.split_first() else {
            return Err(Refusal::Torn);
        };
        let length = number(length).ok_or(Refusal::Torn)?;
        if length > MAX_BLOCK_BYTES || last > 1 {
            return Err(Refusal::Checksum);
        }
        self.ended = last == 1;
        self.block(length, self.ended).map(Some)
    }

    fn block(&mut self, length: usize, last: bool) -> Result<Vec<u8>, Refusal> {
        let sealed = length.saturating_add(self.seal.tag_bytes());
        let mut block = take(&mut self.input, &mut self.left, sealed)?;
        let index = self.index;
        self.seal.open(BlockPosition { index, last }, &mut block)?;
        self.index = index.saturating_add(1);
        Ok(block)
    }
}

/// Returns the salt, and the length of the header.
fn preamble(start: &[u8], has_key: bool) -> Result<([u8; SALT_BYTES], usize), Refusal> {
    let other = |found: String| Refusal::Format {
        expected: FORMAT_VERSION,
        found,
    };
    let rest = start.strip_prefix(MAGIC);
    let rest = rest.ok_or_else(|| other("it does not begin like one".to_owned()))?;
    let (format, rest) = rest.split_first_chunk().ok_or(Refusal::Torn)?;
    let format = u16::from_le_bytes(*format);
    if format != FORMAT_VERSION {
        return Err(other(format!("it has format {format}")));
    }
    let (encrypted, rest) = rest.split_first().ok_or(Refusal::Torn)?;
    match (encrypted, has_key) {
        (0, false) | (1, true) => {}
        (0, true) => return Err(Refusal::Key("it is not encrypted, and a key is configured")),
        (1, false) => return Err(Refusal::Key("it is encrypted, and no key is configured")),
        _ => return Err(Refusal::Checksum),
    }
    let (salt, rest) = rest.split_first_chunk().ok_or(Refusal::Torn)?;
    Ok((*salt, number(rest).ok_or(Refusal::Torn)?))
}

fn number(bytes: &[u8]) -> Option<usize> {
    let number = u32::from_le_bytes(bytes.try_into().ok()?);
    usize::try_from(number).ok()
}

/// Reads exactly this many bytes. Fails before it allocates memory if the file does
/// not have them.
fn take(input: &mut impl Read, left: &mut u64, bytes: usize) -> Result<Vec<u8>, Refusal> {
    *left = left.checked_sub(bytes as u64).ok_or(Refusal::Torn)?;
    let mut taken = Vec::with_capacity(bytes.saturating_add(MAX_TAG_BYTES));
    taken.resize(bytes, 0);
    input.read_exact(&mut taken)?;
    Ok(taken)
}
