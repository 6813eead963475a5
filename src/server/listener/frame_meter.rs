//! Meters the HTTP/2 frames that a client sends beside its requests.
//!
//! h2 bounds resets of streams, headers and empty DATA frames. It does not bound
//! frames that cost work and ask for nothing: PING, SETTINGS, PRIORITY,
//! WINDOW_UPDATE and unknown ones (CVE-2019-9511 to 9518). Nor does it bound streams
//! that are opened and reset one after the other (CVE-2023-44487). Here each such
//! frame costs a token. Tokens come with time, and with the bytes of answers and
//! uploads. A client that receives much has a reason for many window updates and
//! pings. A client that sends much fills the rest of a window with a DATA frame of
//! its own, perhaps of one byte.
//!
//! The meter reads only the nine bytes of each frame's header.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::large_heads::LargeHead;

/// The frames that a client may send at once. Go's net/http2 queues as many of its
/// own answers to these frames (`maxQueuedControlFrames`) before it ends the
/// connection.
const MAX_TOKENS: u64 = 10_000;
/// The tokens that come each second. A frame takes a microsecond, so this is a
/// thousandth of a core.
const TOKENS_PER_SECOND: u64 = 1_000;
/// The bytes of answers or uploads for which a client gets a token. With the
/// smallest usual window, 64 KiB, a client sends two updates for each half of it.
const BYTES_PER_TOKEN: u64 = 1 << 10;
/// The cost of a SETTINGS frame. A change of the initial window is work for every
/// open stream.
const SETTINGS_COST: u64 = 50;
/// In DATA frames below this size, the frame is more work than its data. h2 uses the
/// same size.
const SMALL_DATA: usize = 256;

/// The reads in one turn, of 8 KiB or more each. A client that sends without a pause
/// must not keep other connections from their turn.
const READS_PER_TURN: u32 = 8;
/// The tokens that may be spent in one turn, about a tenth of a millisecond.
const TOKENS_PER_TURN: u64 = 100;

/// The client's preface of HTTP/2 (RFC 9113, 3.4).
pub(in crate::server) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of a frame's header.
pub(super) const FRAME_HEADER_BYTES: usize = 9;

const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
const SETTINGS: u8 = 0x4;
pub(super) const CONTINUATION: u8 = 0x9;
pub(super) const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;

/// The state of a connection. Through it, the connection's stream, the task that
/// serves it and its requests notify one another.
#[derive(Debug)]
pub(in crate::server) struct Http2State {
    started: Instant,
    /// Since when a frame or a block of headers is unfinished: milliseconds since
    /// `started`, plus one, or 0 while nothing is unfinished.
    unfinished_since: AtomicU64,
    stopped_reading: AtomicBool,
    asked_to_end: AtomicBool,
    changed: Notify,
    /// A number that no client knows. [`Self::refused`] uses it.
    secret: u128,
    /// The shares of the budget for large heads whose requests have not begun.
    large: Mutex<Vec<LargeHead>>,
}

impl Http2State {
    pub(in crate::server) fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self {
            started: now,
            unfinished_since: AtomicU64::new(0),
            stopped_reading: AtomicBool::new(false),
            asked_to_end: AtomicBool::new(false),
            changed: Notify::new(),
            secret: rand::random(),
            large: Mutex::default(),
        })
    }

    /// Returns when [`Self::has_stopped_reading`] or [`Self::is_asked_to_end`] may
    /// have become true.
    pub(in crate::server) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Tells whether reading has stopped because the client sent too much that asks
    /// for nothing.
    pub(in crate::server) fn has_stopped_reading(&self) -> bool {
        self.stopped_reading.load(Ordering::Acquire)
    }

    pub(in crate::server) fn stop_reading(&self) {
        self.stopped_reading.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    pub(in crate::server) fn is_asked_to_end(&self) -> bool {
        self.asked_to_end.load(Ordering::Acquire)
    }

    /// Asks for the end of the connection: it finishes its requests, and takes no
    /// more.
    pub(in crate::server) fn ask_to_end(&self) {
        self.asked_to_end.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Returns how long a frame that is not DATA, or a block of headers, has
    /// been unfinished.
    pub(in crate::server) fn unfinished_for(&self, now: Instant) -> Duration {
        match self.unfinished_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => {
                let since = Duration::from_millis(since.saturating_sub(1));
                now.saturating_duration_since(self.started)
                    .saturating_sub(since)
            }
        }
    }

    /// Returns the mark of a request that stands in for a refused one. No client of
    /// this connection can forge it.
    pub(in crate::server) fn refused(&self, code: usize) -> String {
        format!("{:032x}-{code}", self.secret)
    }

    /// Keeps a share of the budget for large heads until its request begins.
    pub(in crate::server) fn hold(&self, head: LargeHead) {
        self.large.lock().push(head);
    }

    /// Returns the share of the budget for a head of this size.
    pub(in crate::server) fn take_held(&self, bytes: usize) -> Option<LargeHead> {
        let mut large = self.large.lock();
        let at = large.iter().position(|head| head.amount() == bytes)?;
        Some(large.swap_remove(at))
    }

    /// Gives back all shares that are still kept, because some requests never begin.
    pub(in crate::server) fn release(&self) {
        self.large.lock().clear();
    }

    fn millis(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.started);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

#[derive(Debug)]
pub(in crate::server) struct FrameMeter {
    state: Arc<Http2State>,
    tokens: u64,
    /// The time at which time last gave tokens.
    filled: Instant,
    /// The bytes of answers and uploads for which no tokens were given yet.
    moved: u64,
    reads_left: u32,
    spent_this_turn: u64,
    /// The bytes of the preface or of a payload that are still to come.
    skip: usize,
    /// The bytes of a frame's header that have come.
    header: [u8; FRAME_HEADER_BYTES],
    have: usize,
    in_data: bool,
    /// Whether a block of headers is open: HEADERS came without END_HEADERS.
    in_block: bool,
    unfinished: bool,
}

impl FrameMeter {
    pub(in crate::server) fn new(state: Arc<Http2State>) -> Self {
        Self {
            tokens: MAX_TOKENS,
            filled: state.started,
            state,
            moved: 0,
            reads_left: READS_PER_TURN,
            spent_this_turn: 0,
            skip: PREFACE.len(),
            header: [0; FRAME_HEADER_BYTES],
            have: 0,
            in_data: false,
            in_block: false,
            unfinished: false,
        }
    }

    pub(in crate::server) fn state(&self) -> &Http2State {
        &self.state
    }

    /// Counts a read of this turn. Returns false if the turn has ended; then the
    /// next turn begins.
    pub(in crate::server) fn take_read(&mut self) -> bool {
        match self.reads_left.checked_sub(1) {
            Some(left) if self.spent_this_turn < TOKENS_PER_TURN => {
                self.reads_left = left;
                true
            }
            _ => {
                self.begin_turn();
                false
            }
        }
    }

    /// Begins a new turn, because nothing more has come.
    pub(in crate::server) fn nothing_to_read(&mut self) {
        self.begin_turn();
    }

    fn begin_turn(&mut self) {
        self.reads_left = READS_PER_TURN;
        self.spent_this_turn = 0;
    }

    pub(in crate::server) fn sent(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes as u64);
    }

    /// Counts the frames in bytes from the client. Returns how many of the bytes
    /// belong to this turn. The rest is for later turns, because h2 works on all
    /// bytes that it gets before it reads again. `now` is called only when the time
    /// matters.
    pub(in crate::server) fn received(
        &mut self,
        mut bytes: &[u8],
        now: impl Fn() -> Instant,
    ) -> usize {
        let mut spent = 0;
        let read = bytes.len();
        while !bytes.is_empty() {
            if self.skip > 0 {
                let n = self.skip.min(bytes.len());
                self.skip = self.skip.saturating_sub(n);
                bytes = bytes.get(n..).unwrap_or_default();
                continue;
            }
            let spent_this_turn = self.spent_this_turn.saturating_add(spent);
            if self.have == 0 && spent > 0 && spent_this_turn >= TOKENS_PER_TURN {
                break;
            }
            let missing = FRAME_HEADER_BYTES.saturating_sub(self.have);
            let n = missing.min(bytes.len());
            let (part, rest) = bytes.split_at_checked(n).unwrap_or((bytes, &[]));
            for (to, from) in self.header.iter_mut().skip(self.have).zip(part) {
                *to = *from;
            }
            self.have = self.have.saturating_add(n);
            bytes = rest;
            if self.have == FRAME_HEADER_BYTES {
                self.have = 0;
                spent = self.frame().saturating_add(spent);
            }
        }
        self.spent_this_turn = self.spent_this_turn.saturating_add(spent);
        self.spend(spent, &now);
        let in_frame = self.have > 0 || (self.skip > 0 && !self.in_data);
        let unfinished = in_frame || self.in_block;
        if unfinished != self.unfinished {
            self.unfinished = unfinished;
            let since = match unfinished {
                true => self.state.millis(now()).saturating_add(1),
                false => 0,
            };
            self.state.unfinished_since.store(since, Ordering::Relaxed);
        }
        read.saturating_sub(bytes.len())
    }

    /// Reads a complete frame header. Returns the cost of the frame.
    fn frame(&mut self) -> u64 {
        let [a, b, c, kind, flags, ..] = self.header;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.skip = length;
        self.in_data = kind == DATA;
        match kind {
            DATA => {
                self.moved = self.moved.saturating_add(length as u64);
                u64::from(length < SMALL_DATA && flags & END_STREAM == 0)
            }
            HEADERS => {
                self.in_block = flags & END_HEADERS == 0;
                0
            }
            CONTINUATION => {
                self.in_block &= flags & END_HEADERS == 0;
                1
            }
            SETTINGS if flags & ACK == 0 => SETTINGS_COST,
            _ => 1,
        }
    }

    fn spend(&mut self, tokens: u64, now: &impl Fn() -> Instant) {
        if tokens > self.tokens {
            self.refill(now());
        }
        match self.tokens.checked_sub(tokens) {
            Some(left) => self.tokens = left,
            None => self.state.stop_reading(),
        }
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled);
        let by_time = u64::try_from(elapsed.as_millis())
            .unwrap_or(u64::MAX)
            .saturating_mul(TOKENS_PER_SECOND)
            / 1000;
        let by_bytes = std::mem::take(&mut self.moved) / BYTES_PER_TOKEN;
        let new = by_time.saturating_add(by_bytes);
        self.tokens = self.tokens.saturating_add(new).min(MAX_TOKENS);
        // The time changes only when it gives a whole token, so that fractions are
        // not lost.
        if by_time > 0 {
            self.filled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 0x6;
    const RST_STREAM: u8 = 0x3;
    const WINDOW_UPDATE: u8 = 0x8;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [.., a, b, c] = length.to_be_bytes();
        let mut bytes = vec![a, b, c, kind, flags, 0, 0, 0, 1];
        bytes.resize(FRAME_HEADER_BYTES + length, 0);
        bytes
    }

    fn meter() -> (FrameMeter, Arc<Http2State>) {
        let state = Http2State::new(Instant::now());
        let mut meter = FrameMeter::new(state.clone());
        let now = state.started;
        meter.received(PREFACE, || now);
        (meter, state)
    }

    #[test]
    fn what_asks_for_nothing_is_bounded() {
        for (what, kind, flags, length, stopped) in [
            ("PING", PING, 0, 8, true),
            ("PING's answer", PING, ACK, 8, true),
            ("RST_STREAM", RST_STREAM, 0, 4, true),
            ("WINDOW_UPDATE", WINDOW_UPDATE, 0, 4, true),
            ("PRIORITY", 0x2, 0, 5, true),
            ("unknown", 0xfa, 0, 0, true),
            ("SETTINGS", SETTINGS, 0, 6, true),
            ("empty DATA", DATA, 0, 0, true),
            ("DATA", DATA, 0, 16 << 10, false),
            ("HEADERS", HEADERS, END_HEADERS, 20, false),
        ] {
            let (mut meter, state) = meter();
            let now = state.started;
            let bytes = frame(kind, flags, length);
            for _ in 0..=MAX_TOKENS {
                meter.received(&bytes, || now);
            }
            assert_eq!(state.has_stopped_reading(), stopped, "{what}");
        }
    }

    #[test]
    fn tokens_come_with_time_and_with_what_is_sent() {
        let (mut meter, state) = meter();
        let ping = frame(PING, 0, 8);
        for millis in 0..100_000 {
            let now = state.started + Duration::from_millis(millis);
            meter.received(&ping, || now);
        }
        let now = state.started + Duration::from_secs(100);
        for _ in 0..100_000 {
            meter.sent(2 << 10);
            meter.received(&ping, || now);
        }
        assert!(!state.has_stopped_reading());
        for _ in 0..=MAX_TOKENS {
            meter.received(&ping, || now);
        }
        assert!(state.has_stopped_reading());
    }

    /// Go's client fills a window of 65,535 bytes with four frames and a frame of
    /// one byte.
    #[test]
    fn an_upload_is_no_flood() {
        let (mut meter, state) = meter();
        let now = state.started;
        let mut window = frame(DATA, 0, 16 << 10).repeat(3);
        window.extend(frame(DATA, 0, (16 << 10) - 1));
        window.extend(frame(DATA, 0, 1));
        window.extend(frame(WINDOW_UPDATE, 0, 4));
        for _ in 0..2 * MAX_TOKENS {
            let taken = meter.received(&window, || now);
            assert_eq!(taken, window.len());
            meter.begin_turn();
        }
        assert!(!state.has_stopped_reading());
        // Small frames give at most a quarter of the tokens that they cost.
        let small = frame(DATA, 0, SMALL_DATA - 1);
        for _ in 0..=2 * MAX_TOKENS {
            meter.received(&small, || now);
        }
        assert!(state.has_stopped_reading());
    }

    /// Unfinished headers are noticed wherever reads cut the bytes.
    #[test]
    fn headers_that_do_not_end_are_seen() {
        for cut in 1..40 {
            let (mut meter, state) = meter();
            let now = state.started;
            let later = now + Duration::from_secs(5);
            let unfinished = || !state.unfinished_for(later).is_zero();
            let mut bytes = frame(HEADERS, 0, 20);
            bytes.extend(frame(CONTINUATION, 0, 7));
            for piece in bytes.chunks(cut) {
                meter.received(piece, || now);
                assert!(unfinished(), "{cut}");
            }
            assert_eq!(state.unfinished_for(later), Duration::from_secs(5));
            meter.received(&frame(CONTINUATION, END_HEADERS, 7), || now);
            assert!(!unfinished(), "{cut}");
            // A DATA frame may take its time.
            meter.received(&frame(DATA, 0, 50)[..20], || now);
            assert!(!unfinished(), "{cut}");
            meter.received(&[0; 39], || now);
            meter.received(&frame(PING, 0, 8)[..cut.min(16)], || now);
            assert!(unfinished(), "{cut}");
        }
    }

    #[test]
    fn a_turn_has_an_end() {
        let (mut meter, _) = meter();
        for _ in 0..2 {
            for _ in 0..READS_PER_TURN {
                assert!(meter.take_read());
            }
            assert!(!meter.take_read());
        }
        assert!(meter.take_read());
        meter.nothing_to_read();
        assert_eq!(meter.reads_left, READS_PER_TURN);
    }

    #[test]
    fn frames_that_ask_for_nothing_are_spread_over_turns() {
        let (mut meter, state) = meter();
        let mut turn = |bytes: &[u8]| {
            assert!(meter.take_read());
            let taken = meter.received(bytes, || state.started);
            meter.begin_turn();
            taken
        };
        let window = frame(WINDOW_UPDATE, 0, 4);
        let uploads = [window.clone(), frame(DATA, 0, 8 << 10)].concat();
        let requests = frame(HEADERS, END_HEADERS, 20).repeat(200);
        for all in [uploads, requests] {
            assert_eq!(turn(&all), all.len());
        }
        let mut floods = window.repeat(250);
        for frames in [100, 100, 50] {
            let taken = turn(&floods);
            assert_eq!(taken, frames * window.len());
            floods.drain(..taken);
        }
        let settings = frame(SETTINGS, 0, 6);
        assert_eq!(turn(&settings.repeat(100)), 2 * settings.len());
    }

    #[test]
    fn a_turn_ends_after_its_tokens() {
        let (mut meter, state) = meter();
        assert!(meter.take_read());
        let pings = frame(PING, 0, 8).repeat(100);
        assert_eq!(meter.received(&pings, || state.started), pings.len());
        assert!(!meter.take_read());
        assert!(meter.take_read());
    }
}
