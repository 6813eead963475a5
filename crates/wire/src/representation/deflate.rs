//! Joins parts that were compressed separately into one gzip member (RFC 1951,
//! RFC 1952).
//!
//! A gzip member is a header, a sequence of deflate blocks, a checksum and a
//! length. Blocks that end on a byte boundary and refer to nothing before them
//! can stand anywhere in any member. A list is joined from the blocks of its
//! leaves, and none of its bytes are compressed again.

use std::cell::RefCell;

use flate2::{Compress, Compression, Crc, FlushCompress};

/// The compression level. On kube-apiserver's pods, level 1 of Go's
/// `compress/gzip`, which kube-apiserver uses, leaves 6.3% of the JSON. zlib-ng
/// leaves 4.0% at this level, in a ninth of the CPU time; 7.6% at level 1; and 3.7%
/// at level 6, in a third more time.
const COMPRESSION_LEVEL: u32 = 4;

/// The header that Go's writer writes at level 1: no name, no time, "fastest",
/// unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];

/// The last block of a member: an empty stored block with the final bit.
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];

const STORED_MAX: usize = 0xffff;

/// The first estimate of a run's compressed size, as a shift: a sixteenth of its
/// input.
const EXPECTED_SHIFT: u32 = 4;
/// The least number of bytes by which the output buffer grows.
const GROWTH_BYTES: usize = 4 << 10;

/// Compressed bytes: deflate blocks that end on a byte boundary and refer to
/// nothing before them.
#[derive(Debug)]
pub struct Run {
    blocks: Box<[u8]>,
    /// The checksum and the length of the uncompressed bytes.
    crc: Crc,
}

impl Run {
    /// Returns the number of compressed bytes.
    pub fn size(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the number of uncompressed bytes. No leaf has more than fit a
    /// `u32`.
    pub fn length(&self) -> usize {
        usize::try_from(self.crc.amount()).unwrap_or(usize::MAX)
    }
}

/// Makes [`Run`]s, one after the other. Its tables, some hundred KB, are
/// allocated once.
#[derive(Debug)]
pub struct Deflater {
    compress: Compress,
}

impl Default for Deflater {
    fn default() -> Self {
        let compress = Compress::new(Compression::new(COMPRESSION_LEVEL), false);
        Self { compress }
    }
}

impl Deflater {
    /// Compresses all parts into one run. `length` is an estimate of their
    /// total length.
    ///
    /// The result is `None` if the compressor fails, which is not expected.
    pub fn run<B: AsRef<[u8]>>(
        &mut self,
        parts: impl IntoIterator<Item = B>,
        length: usize,
    ) -> Option<Run> {
        self.compress.reset();
        let mut out = Vec::with_capacity((length >> EXPECTED_SHIFT).max(64));
        let mut crc = Crc::new();
        for part in parts {
            let part = part.as_ref();
            crc.update(part);
            self.feed(part, &mut out)?;
        }
        self.flush(&mut out)?;
        let blocks = out.into_boxed_slice();
        Some(Run { blocks, crc })
    }

    fn feed(&mut self, mut part: &[u8], out: &mut Vec<u8>) -> Option<()> {
        while !part.is_empty() {
            reserve(out);
            let before = self.compress.total_in();
            let none = FlushCompress::None;
            self.compress.compress_vec(part, out, none).ok()?;
            let taken = self.compress.total_in().checked_sub(before)?;
            let taken = usize::try_from(taken).ok()?;
            part = part.get(taken..)?;
        }
        Some(())
    }

    /// Ends the last block and fills its last byte with an empty stored block.
    fn flush(&mut self, out: &mut Vec<u8>) -> Option<()> {
        loop {
            reserve(out);
            let sync = FlushCompress::Sync;
            self.compress.compress_vec(&[], out, sync).ok()?;
            // If space is left, all output has been written.
            if out.len() < out.capacity() {
                return Some(());
            }
        }
    }
}

/// Makes room, because the compressor writes only into free capacity.
fn reserve(out: &mut Vec<u8>) {
    if out.len() == out.capacity() {
        out.reserve(GROWTH_BYTES);
    }
}

thread_local! {
    /// This thread's compressor. Allocating its tables takes longer than
    /// compressing an event of a watch.
    static DEFLATER: RefCell<Deflater> = RefCell::default();
}

/// Compresses the parts into a complete gzip member. The result is `None` if
/// the compressor fails.
pub fn gzip<B: AsRef<[u8]>>(parts: &[B]) -> Option<Vec<u8>> {
    let length = parts.iter().map(|part| part.as_ref().len()).sum();
    let run = DEFLATER.with(|deflater| deflater.try_borrow_mut().ok()?.run(parts, length))?;
    const FRAME_BYTES: usize = GZIP_HEADER
        .len()
        .saturating_add(LAST_BLOCK.len())
        .saturating_add(8);
    let mut out = Vec::with_capacity(run.size().saturating_add(FRAME_BYTES));
    let mut member = Member::begin(|bytes: &[u8]| out.extend_from_slice(bytes));
    member.run(&run);
    member.end();
    Some(out)
}

/// A gzip member that is written piece by piece, in order, to the closure.
pub struct Member<W: FnMut(&[u8])> {
    write: W,
    crc: Crc,
}

impl<W: FnMut(&[u8])> Member<W> {
    /// Begins a member and writes its header.
    pub fn begin(mut write: W) -> Self {
        write(&GZIP_HEADER);
        let crc = Crc::new();
        Self { write, crc }
    }

    /// Writes the bytes uncompressed. This is meant for short pieces.
    pub fn stored(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(STORED_MAX) {
            let length = block.len() as u16;
            (self.write)(&[0]);
            (self.write)(&length.to_le_bytes());
            (self.write)(&(!length).to_le_bytes());
            (self.write)(block);
        }
        self.crc.update(bytes);
    }

    /// Writes compressed bytes.
    pub fn run(&mut self, run: &Run) {
        (self.write)(&run.blocks);
        self.crc.combine(&run.crc);
    }

    /// Ends the member with its checksum and its length.
    pub fn end(mut self) {
        (self.write)(&LAST_BLOCK);
        (self.write)(&self.crc.sum().to_le_bytes());
        // The format has the length modulo 2^32.
        (self.write)(&self.crc.amount().to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Piece {
        Stored(Vec<u8>),
        Run(Vec<Vec<u8>>),
    }

    impl Piece {
        fn plain(&self) -> Vec<u8> {
            match self {
                Self::Stored(bytes) => bytes.clone(),
                Self::Run(parts) => parts.concat(),
            }
        }
    }

    fn member(pieces: &[Piece]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut deflater = Deflater::default();
        let mut member = Member::begin(|bytes: &[u8]| out.extend_from_slice(bytes));
        for piece in pieces {
            match piece {
                Piece::Stored(bytes) => member.stored(bytes),
                Piece::Run(parts) => member.run(&deflater.run(parts, 0).unwrap()),
            }
        }
        member.end();
        out
    }

    /// Decompresses exactly one member. Asserts that its checksum is right and
    /// that nothing follows it.
    fn decoded(gzip: &[u8]) -> Vec<u8> {
        let mut decoder = GzDecoder::new(gzip);
        let mut plain = Vec::new();
        decoder.read_to_end(&mut plain).unwrap();
        assert!(decoder.into_inner().is_empty());
        plain
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn what_comes_out_is_what_went_in() {
        let run = |bytes: Vec<u8>| Piece::Run(vec![bytes]);
        for pieces in [
            vec![],
            vec![Piece::Stored(Vec::new())],
            vec![run(Vec::new()), Piece::Run(Vec::new())],
            vec![Piece::Stored(noise(0xffff)), Piece::Stored(noise(0x10000))],
            vec![run(noise(1_000_000)), run(b"x".repeat(3_000_000))],
            // An equal run must not refer to the run before it.
            vec![run(b"abcabcabc".repeat(9)), run(b"abcabcabc".repeat(9))],
            vec![Piece::Run(vec![b"ab".to_vec(); 70_000]), run(noise(1))],
        ] {
            let plain: Vec<u8> = pieces.iter().flat_map(Piece::plain).collect();
            assert_eq!(decoded(&member(&pieces)), plain);
        }
    }

    /// A run can stand anywhere in any member.
    #[test]
    fn runs_are_movable() {
        let mut deflater = Deflater::default();
        let a = deflater.run(["one, two, one, two, "], 0).unwrap();
        let b = deflater.run(["one, two, three"], 0).unwrap();
        for (runs, plain) in [
            (vec![&b], "one, two, three"),
            (vec![&a, &b], "one, two, one, two, one, two, three"),
            (vec![&b, &a], "one, two, threeone, two, one, two, "),
        ] {
            let mut out = Vec::new();
            let mut member = Member::begin(|bytes: &[u8]| out.extend_from_slice(bytes));
            runs.into_iter().for_each(|run| member.run(run));
            member.end();
            assert_eq!(decoded(&out), plain.as_bytes());
        }
    }

    /// The header is that of Go 1.26's `compress/gzip` at level 1 with nothing
    /// written.
    #[test]
    fn begins_as_gos_writer_does() {
        let go = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff\x01\0\0\xff\xff\0\0\0\0\0\0\0\0";
        assert_eq!(member(&[]), go);
    }

    proptest! {
        #[test]
        fn any_chunking(
            pieces in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..40).prop_map(Piece::Stored),
                    proptest::collection::vec(
                        prop_oneof![
                            proptest::collection::vec(any::<u8>(), 0..300),
                            (any::<u8>(), 0usize..70_000).prop_map(|(b, n)| vec![b; n]),
                        ],
                        0..5,
                    ).prop_map(Piece::Run),
                ],
                0..12,
            )
        ) {
            let plain: Vec<u8> = pieces.iter().flat_map(Piece::plain).collect();
            prop_assert_eq!(decoded(&member(&pieces)), plain);
        }
    }
}
