//! Frames of many HTTP/2 streams in one write.
//!
//! h2 flushes its connection after each DATA frame. When an event goes out on
//! fifty streams of a connection, this makes fifty TLS records and fifty system
//! calls, and the kernel's part alone costs more than everything else. This
//! layer between h2 and TLS gathers frames until every task that has something
//! to send had its turn.
//!
//! ```text
//! clean ─ write ─▶ filling ─ flush ─▶ yielded ─ the task's next turn ─▶ due ─ last flush ─▶ clean
//! ```
//!
//! Small pieces that HTTP/1 writes, such as a header and a short body, are
//! joined until they are flushed. Large pieces pass, and are only kept off the
//! page offsets that are copied slowly ([`copies_slowly`]).
//!
//! All bytes of a connection go through this layer. So it holds the
//! [`OpenConnection`], counts its frames ([`FrameMeter`]), and closes it so that
//! the last answer arrives ([`linger()`]).

mod boundary;
mod delegation;
mod linger;
mod slow_copy;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use pingora_core::protocols::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;

use self::boundary::Boundary;
use self::linger::linger;
use self::slow_copy::{BUFFER_OFFSET_BYTES, copies_slowly};
use super::connections::OpenConnection;
use super::frame_meter::FrameMeter;
use super::http2_head::Http2Heads;

/// The most bytes that are gathered before they are written: four full TLS records,
/// which is as much as rustls takes at a time and as TCP offloads in one segment.
const GATHERED_BYTES: usize = 64 << 10;

/// How many bytes a task writes before other tasks get a turn. They take a part of a
/// millisecond. tokio's own budget is 128 writes, which is 8 MiB and takes ten
/// milliseconds.
const WRITTEN_PER_TURN: usize = 256 << 10;

/// The most bytes that a TLS record holds.
const RECORD_BYTES: usize = 16 << 10;

/// For writes up to this size, the buffer does not grow to its full size at once.
const SMALL_WRITE_BYTES: usize = 1 << 10;

/// The most bytes of small HTTP/1 pieces that are joined. A header and most answers
/// fit.
const JOINED_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// There is nothing to flush, or no task has asked for a flush.
    Clean,
    /// The task has asked to be polled again after the others.
    Yielded,
    /// The task has been polled again, so the next flush writes the bytes.
    Due,
}

#[derive(Debug)]
pub(in crate::server) struct Coalesced {
    inner: Stream,
    protocol: Protocol,
    /// Bytes that were read, but are for later turns.
    unread: Bytes,
    /// Empty, or [`BUFFER_OFFSET_BYTES`] bytes and then the bytes to write.
    buffer: Vec<u8>,
    /// How many bytes of `buffer` are written already or are skew.
    sent: usize,
    /// The bytes that the task has written in its present turn.
    written_this_turn: usize,
    /// Whether a frame was written since the last flush.
    written: bool,
    turn: Turn,
    /// Whether the connection is closed for writing while its client may still send.
    lingers: bool,
    /// Counts the connection as open until it is dropped.
    open: Option<OpenConnection>,
}

#[derive(Debug)]
enum Protocol {
    Http1 {
        tls: bool,
        boundary: Boundary,
    },
    Http2 {
        meter: FrameMeter,
        heads: Box<Http2Heads>,
    },
}

impl Coalesced {
    fn new(inner: Stream, protocol: Protocol, open: Option<OpenConnection>) -> Self {
        Self {
            inner,
            protocol,
            unread: Bytes::new(),
            buffer: Vec::new(),
            sent: 0,
            written_this_turn: 0,
            written: false,
            turn: Turn::Clean,
            lingers: false,
            open,
        }
    }

    pub(in crate::server) fn http1(inner: Stream, open: Option<OpenConnection>) -> Self {
        let tls = inner.get_ssl_digest().is_some();
        let boundary = Boundary::new();
        Self::new(inner, Protocol::Http1 { tls, boundary }, open)
    }

    pub(in crate::server) fn http2(
        inner: Stream,
        meter: FrameMeter,
        heads: Http2Heads,
        open: Option<OpenConnection>,
    ) -> Self {
        let heads = Box::new(heads);
        Self::new(inner, Protocol::Http2 { meter, heads }, open)
    }

    /// Begins a request on an HTTP/1 connection, as [`Boundary::begin_request`]
    /// does.
    pub(in crate::server) fn begin_request(&mut self, body: Option<u64>, next: BytesMut) {
        if let Protocol::Http1 { boundary, .. } = &mut self.protocol {
            boundary.begin_request(body, next);
        }
    }

    /// Ends the request on an HTTP/1 connection. Returns the bytes after it that
    /// were read.
    pub(in crate::server) fn end_request(&mut self) -> BytesMut {
        match &mut self.protocol {
            Protocol::Http1 { boundary, .. } => boundary.end_request(),
            Protocol::Http2 { .. } => BytesMut::new(),
        }
    }

    /// Lets the reader of an HTTP/1 connection have all bytes, also those after the
    /// request, because the connection speaks another protocol.
    pub(in crate::server) fn open(&mut self) {
        if let Protocol::Http1 { boundary, .. } = &mut self.protocol {
            boundary.open();
        }
    }

    fn gathers(&self) -> bool {
        matches!(self.protocol, Protocol::Http2 { .. })
    }

    /// Joins small pieces of HTTP/1, and writes large ones directly.
    fn join(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        if self.gathered().saturating_add(total) > JOINED_BYTES {
            ready!(self.drain(cx))?;
            self.buffer = Vec::new();
        }
        if total < JOINED_BYTES {
            self.begin_buffer();
            for buf in bufs {
                self.buffer.extend_from_slice(buf);
            }
            return Poll::Ready(Ok(total));
        }
        ready!(self.poll_turn(cx));
        let inner = Pin::new(&mut self.inner);
        let written = match (&self.protocol, bufs) {
            // The rest of the piece then begins at an offset that is copied fast.
            (Protocol::Http1 { tls: true, .. }, [buf])
                if buf.len() > RECORD_BYTES && copies_slowly(buf) =>
            {
                inner.poll_write(cx, buf.get(..BUFFER_OFFSET_BYTES).unwrap_or(buf))
            }
            _ => inner.poll_write_vectored(cx, bufs),
        };
        if let Poll::Ready(Ok(written)) = written {
            self.count_written(written);
        }
        written
    }

    /// Reads HTTP/2 frames through [`FrameMeter`] and [`Http2Heads`].
    fn read_frames(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let Protocol::Http2 { meter, heads } = &mut self.protocol else {
                return Poll::Ready(Ok(()));
            };
            if heads.give(buf) || heads.has_ended() {
                return Poll::Ready(Ok(()));
            }
            let before = buf.filled().len();
            let is_new = self.unread.is_empty();
            if is_new {
                let read = Pin::new(&mut self.inner).poll_read(cx, buf);
                if read.is_pending() {
                    meter.nothing_to_read();
                }
                ready!(read)?;
            } else {
                let room = self.unread.len().min(buf.remaining());
                buf.put_slice(self.unread.get(..room).unwrap_or_default());
            }
            let bytes = buf.filled().get(before..).unwrap_or_default();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let taken = meter.received(bytes, Instant::now);
            if is_new {
                let rest = bytes.get(taken..).unwrap_or_default();
                self.unread = Bytes::copy_from_slice(rest);
            } else {
                self.unread.advance(taken);
            }
            let bytes = bytes.get(..taken).unwrap_or_default();
            let as_they_came = heads.received(bytes);
            buf.set_filled(before.saturating_add(as_they_came));
            if as_they_came > 0 {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_read_turn(cx));
        }
    }

    /// Ends the turn of a task that has read enough. If the client has sent too much
    /// that asks for nothing, reading ends for ever.
    fn poll_read_turn(&mut self, cx: &Context<'_>) -> Poll<()> {
        let Protocol::Http2 { meter, .. } = &mut self.protocol else {
            return Poll::Ready(());
        };
        if meter.state().has_stopped_reading() {
            // The connection's task has been told, and will end the connection.
            return Poll::Pending;
        }
        if !meter.take_read() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Ends the turn of a task that has written enough. It is polled again after the
    /// others.
    fn poll_turn(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.written_this_turn < WRITTEN_PER_TURN {
            return Poll::Ready(());
        }
        self.written_this_turn = 0;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn count_written(&mut self, written: usize) {
        self.written_this_turn = self.written_this_turn.saturating_add(written);
    }

    fn begin_buffer(&mut self) {
        if self.buffer.is_empty() {
            self.buffer.resize(BUFFER_OFFSET_BYTES, 0);
            self.sent = BUFFER_OFFSET_BYTES;
        }
    }

    /// Returns the number of bytes written to the buffer since it was last
    /// empty.
    fn gathered(&self) -> usize {
        self.buffer.len().saturating_sub(BUFFER_OFFSET_BYTES)
    }

    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.buffer.len() {
            ready!(self.poll_turn(cx));
            let rest = self.buffer.get(self.sent..).unwrap_or_default();
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent = self.sent.saturating_add(written);
            self.count_written(written);
        }
        self.buffer.clear();
        Poll::Ready(Ok(()))
    }

    fn drain_and_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(cx))?;
        // An idle connection holds no buffer.
        self.buffer = Vec::new();
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.turn = Turn::Clean;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Coalesced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Protocol::Http1 { boundary, .. } = &mut this.protocol {
            return boundary.poll_read(&mut this.inner, cx, buf);
        }
        ready!(this.poll_read_turn(cx));
        // h2 begins each turn with a read.
        match self.turn {
            Turn::Clean => {}
            Turn::Yielded => self.turn = Turn::Due,
            Turn::Due => {
                if let Poll::Ready(Err(error)) = self.drain_and_flush(cx) {
                    return Poll::Ready(Err(error));
                }
            }
        }
        self.read_frames(cx, buf)
    }
}

impl AsyncWrite for Coalesced {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.gathers() {
            return self.join(cx, bufs);
        }
        if self.gathered() >= GATHERED_BYTES {
            ready!(self.drain(cx))?;
        }
        self.written = true;
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        self.begin_buffer();
        let room = GATHERED_BYTES.saturating_sub(self.gathered());
        if total > SMALL_WRITE_BYTES {
            // Reserving the room at once is cheaper than doubling.
            self.buffer.reserve_exact(room);
        }
        // The last piece is cut at the end of a record.
        let mut left = room;
        for buf in bufs {
            let taken = buf.get(..left).unwrap_or(buf);
            self.buffer.extend_from_slice(taken);
            left = left.saturating_sub(taken.len());
        }
        let written = room.saturating_sub(left);
        if let Protocol::Http2 { meter, .. } = &mut self.protocol {
            meter.sent(written);
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.gathers() || self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.gathers() {
            return self.drain_and_flush(cx);
        }
        // h2 flushes after each frame, and once more after the last one.
        let more = std::mem::take(&mut self.written);
        match self.turn {
            Turn::Clean | Turn::Due if !more => return self.drain_and_flush(cx),
            Turn::Clean => self.turn = Turn::Yielded,
            Turn::Yielded | Turn::Due => {}
        }
        if more {
            // A task that wakes itself is polled after all other tasks that are
            // awake.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain_and_flush(cx))?;
        ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        self.lingers = match &self.protocol {
            Protocol::Http1 { boundary, .. } => boundary.expects_more(),
            Protocol::Http2 { .. } => false,
        };
        Poll::Ready(Ok(()))
    }
}

impl Drop for Coalesced {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.lingers, Handle::try_current()) {
            let nothing = Box::new(io::Cursor::new(Vec::<u8>::new()));
            let inner = std::mem::replace(&mut self.inner, nothing);
            runtime.spawn(linger(inner, self.open.take()));
        }
    }
}
