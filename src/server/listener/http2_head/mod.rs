//! The heads of HTTP/2 requests, before h2 reads them.
//!
//! h2 ends a connection with all its streams for an octet that no field may hold,
//! for a target that is not UTF-8, and for a head of some hundred kilobytes. It cuts
//! targets at `#`, and resets the streams of targets that Go's server takes. So
//! blocks of fields are read here first. [`super::head`] does the same for HTTP/1.
//!
//! ```text
//! frames ─▶ other frames, plain blocks ───────────────▶ h2
//!        └▶ blocks ─▶ fields ─▶ odd: written anew ────▶ h2
//!                            ├▶ too large: a refusal ─▶ h2 ─▶ Status (`judge.rs`)
//!                            └▶ malformed ────────────▶ h2 ─▶ RST_STREAM
//! ```
//!
//! Nearly all bytes pass as they came. After the first block that is changed, h2's
//! table differs from the client's, so all later blocks of the connection are
//! written anew, without a table.

mod field;
mod frames;
mod hpack;
mod huffman;
mod judge;
mod table;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use http::HeaderMap;
use tokio::io::ReadBuf;

use self::frames::{Arrival, Arrived, Frame};
use self::hpack::Decoder;
use self::judge::{Block, Verdict};
use super::frame_meter::{FRAME_HEADER_BYTES, Http2State, PREFACE};
use super::head::{HeadLimits, HeadRefusal};
use super::large_heads::{LargeHead, SMALL_HEAD};

/// A field for which h2 treats a request as malformed.
const MALFORMED: (&[u8], &[u8]) = (b"connection", b"close");

/// A block that is not HPACK: an index without a field.
const NO_BLOCK: [u8; 1] = [0x80];

/// The most octets of a block's frames, as a multiple of the limit for heads. Go's
/// server also ends connections above it (`processHeaderBlockFragment`).
const LARGEST_BLOCK: usize = 2;

/// The reasons why requests are refused here. h2 passes each refused request on as
/// another request that tells the reason.
const REFUSALS: [HeadRefusal; 6] = [
    HeadRefusal::Malformed("invalid URL escape"),
    HeadRefusal::Malformed("invalid method"),
    HeadRefusal::Malformed("malformed Host header"),
    HeadRefusal::TooLarge,
    HeadRefusal::TargetTooLong,
    HeadRefusal::TooManyLarge,
];
const REFUSED: &str = "x-apifront-refused";

/// The longest target that is kept of a refused request, for the access log.
const KEPT_TARGET: usize = 2 << 10;

/// Reads the frames that a client sends on one connection.
#[derive(Debug)]
pub(in crate::server) struct Http2Heads {
    state: Arc<Http2State>,
    limits: HeadLimits,
    client: IpAddr,
    /// The octets of the preface or of a frame that are still to come and are passed
    /// on.
    passing: usize,
    /// A frame's header or a block that is not complete.
    held: BytesMut,
    arrival: Arrival,
    budget: Option<LargeHead>,
    /// Bytes for h2 that must go before any others.
    next: BytesMut,
    decoder: Decoder,
    last_stream: u32,
    is_rewriting: bool,
    has_ended: bool,
}

/// Takes bytes to h2. They go as they came, as long as no other bytes must go first.
struct Sink<'a> {
    bytes: &'a [u8],
    as_they_came: usize,
    is_open: bool,
    next: BytesMut,
}

impl Sink<'_> {
    fn pass(&mut self, start: usize, end: usize) {
        match self.is_open {
            true => self.as_they_came = end,
            false => self.put(self.bytes.get(start..end).unwrap_or_default()),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.is_open = false;
        self.next.extend_from_slice(bytes);
    }

    fn write(&mut self, first: Frame, block: &[u8]) {
        self.is_open = false;
        frames::write(first, block, &mut self.next);
    }
}

impl Http2Heads {
    pub(in crate::server) fn new(
        state: Arc<Http2State>,
        limits: HeadLimits,
        client: IpAddr,
    ) -> Self {
        Self {
            state,
            limits,
            client,
            passing: PREFACE.len(),
            held: BytesMut::new(),
            arrival: Arrival::default(),
            budget: None,
            next: BytesMut::new(),
            decoder: Decoder::default(),
            last_stream: 0,
            is_rewriting: false,
            has_ended: false,
        }
    }

    /// Gives bytes that must go before any others. Returns false if there are none.
    pub(in crate::server) fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        if self.next.is_empty() {
            return false;
        }
        let given = self.next.len().min(buf.remaining());
        buf.put_slice(self.next.get(..given).unwrap_or_default());
        self.next.advance(given);
        if self.next.is_empty() {
            // An idle connection holds no memory.
            self.next = BytesMut::new();
        }
        true
    }

    /// Tells whether nothing more goes to h2.
    pub(in crate::server) fn has_ended(&self) -> bool {
        self.has_ended && self.next.is_empty()
    }

    /// Takes bytes that were read. Returns how many of them go to h2 as they came.
    /// Bytes that replace the rest are given later.
    pub(in crate::server) fn received(&mut self, bytes: &[u8]) -> usize {
        if self.has_ended {
            return 0;
        }
        if self.held.is_empty() {
            let (as_they_came, walked) = self.walk(bytes, self.next.is_empty());
            let rest = bytes.get(walked..).unwrap_or_default();
            self.held.extend_from_slice(rest);
            return as_they_came;
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(bytes);
        let (_, walked) = self.walk(&held, false);
        if walked < held.len() {
            held.advance(walked);
            self.held = held;
        }
        0
    }

    /// Walks over the frames. Returns how many of the bytes go to h2 as they came,
    /// and how many were handled.
    fn walk(&mut self, bytes: &[u8], is_open: bool) -> (usize, usize) {
        let mut sink = Sink {
            bytes,
            as_they_came: 0,
            is_open,
            next: std::mem::take(&mut self.next),
        };
        let mut at = 0_usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if self.passing > 0 {
                let passed = self.passing.min(rest.len());
                let end = at.saturating_add(passed);
                sink.pass(at, end);
                self.passing = self.passing.saturating_sub(passed);
                at = end;
                continue;
            }
            let Some(frame) = Frame::read(rest) else {
                break;
            };
            if !frame.begins_block() {
                self.passing = FRAME_HEADER_BYTES.saturating_add(frame.length);
                continue;
            }
            let arrived = self.arrival.follow(rest);
            let end = at.saturating_add(self.arrival.whole);
            match arrived {
                Arrived::Partly => {
                    self.hold(rest.len());
                    break;
                }
                Arrived::Wrong => {
                    sink.pass(at, bytes.len());
                    self.has_ended = true;
                }
                Arrived::Whole => {
                    let is_one = self.arrival.frames == 1;
                    self.arrival = Arrival::default();
                    self.budget = None;
                    self.block(frame, (at, end), is_one, &mut sink);
                }
            }
            at = match self.has_ended {
                true => bytes.len(),
                false => end,
            };
        }
        self.next = sink.next;
        (sink.as_they_came, at)
    }

    /// Takes the budget for a block that is not complete. Without it, the connection
    /// ends.
    fn hold(&mut self, bytes: usize) {
        if bytes < SMALL_HEAD {
            return;
        }
        let most = self.limits.max_bytes.saturating_mul(LARGEST_BLOCK);
        let has_room = bytes <= most
            && match &mut self.budget {
                Some(budget) => budget.grow(bytes.saturating_sub(budget.amount())).is_ok(),
                None => {
                    self.budget = self.limits.large.take(self.client, bytes);
                    self.budget.is_some()
                }
            };
        if !has_room {
            self.state.stop_reading();
        }
    }

    /// Passes a block on, or writes another in its place.
    fn block(
        &mut self,
        first: Frame,
        (start, end): (usize, usize),
        is_one: bool,
        sink: &mut Sink<'_>,
    ) {
        let frames = sink.bytes.get(start..end).unwrap_or_default();
        let mut fragment = Vec::with_capacity(frames.len());
        if frames::block(frames, &mut fragment).is_none() {
            sink.pass(start, end);
            self.has_ended = true;
            return;
        }
        let mut block = Block::default();
        let limit = self.limits.max_bytes;
        let decoded = self
            .decoder
            .decode(&fragment, |found| block.add(found, limit));
        if decoded.is_none() {
            sink.write(first, &NO_BLOCK);
            self.has_ended = true;
            return;
        }
        block.ends(fragment.len());
        match self.verdict(first, &block) {
            Verdict::Plain if !self.is_rewriting && is_one => sink.pass(start, end),
            Verdict::Plain if !self.is_rewriting => sink.write(first, &fragment),
            verdict => {
                self.is_rewriting = true;
                sink.write(first, &self.rewritten(verdict, &block));
            }
        }
    }

    fn verdict(&mut self, first: Frame, block: &Block) -> Verdict {
        let is_request = first.stream > self.last_stream;
        self.last_stream = self.last_stream.max(first.stream);
        let verdict = block.verdict(is_request);
        if !is_request || !matches!(verdict, Verdict::Plain | Verdict::Odd) {
            return verdict;
        }
        let size = block.head_size();
        if size <= SMALL_HEAD {
            return verdict;
        }
        match self.limits.large.take(self.client, size) {
            Some(head) => {
                self.state.hold(head);
                verdict
            }
            None => Verdict::Refused(HeadRefusal::TooManyLarge),
        }
    }

    /// Writes a block that makes h2 do what the verdict says.
    fn rewritten(&self, verdict: Verdict, block: &Block) -> Vec<u8> {
        let mut written = Vec::new();
        let mut write = |name: &[u8], value: &[u8]| hpack::write(name, value, &mut written);
        match verdict {
            Verdict::Plain | Verdict::Odd => block.written(write),
            Verdict::Malformed => write(MALFORMED.0, MALFORMED.1),
            Verdict::Refused(why) => {
                write(b":method", block.method().unwrap_or(b"GET"));
                write(b":scheme", b"https");
                write(b":authority", b"localhost");
                let target = block.target().filter(|target| target.len() <= KEPT_TARGET);
                write(b":path", target.unwrap_or(b"/"));
                let refused = self.state.refused(code(why));
                write(REFUSED.as_bytes(), refused.as_bytes());
            }
        }
        written
    }
}

fn code(why: HeadRefusal) -> usize {
    let found = REFUSALS.iter().position(|refusal| *refusal == why);
    found.unwrap_or_default()
}

/// Returns why a request is refused, if it stands in for a refused one.
pub(super) fn refusal(state: &Http2State, headers: &HeaderMap) -> Option<HeadRefusal> {
    let said = headers.get(REFUSED)?.to_str().ok()?;
    let mut codes = 0..REFUSALS.len();
    let code = codes.find(|code| state.refused(*code) == said)?;
    REFUSALS.get(code).copied()
}
