//! Frames of many HTTP/2 streams in one write.
//!
//! h2 flushes its connection after each DATA frame. When an event goes out on
//! fifty streams of a connection, that is fifty TLS records and fifty system
//! calls, of which the kernel's part alone costs more than all else. This layer
//! between h2 and TLS gathers frames until every task that has something to
//! send had its turn.
//!
//! ```text
//! clean ─ write ─▶ filling ─ flush ─▶ yielded ─ the task's next turn ─▶ due ─ last flush ─▶ clean
//! ```
//!
//! Small pieces that HTTP/1 writes, such as a header and a short body, are joined
//! until they are flushed; large ones pass, and are only kept off the page offsets
//! that are copied slowly ([`copies_slowly`]).
//!
//! This is the one layer through which everything of a connection goes: it holds
//! the connection's [`Seat`] and counts its frames ([`FrameMeter`]).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::{SslDigest, TlsRef};
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::connections::Seat;
use super::frame_meter::FrameMeter;

/// The most bytes that are gathered before they are written: four full TLS records,
/// as much as rustls takes at a time and TCP in one segment to offload.
const GATHERED_BYTES: usize = 64 << 10;

/// The offset in its page at which a buffer begins, so that rustls does not copy it
/// slowly: see [`copies_slowly`].
const SKEW: usize = 64;

const PAGE: usize = 4096;
/// rustls copies each record behind its header, into an allocation of its own:
/// as large as it is, that begins with a page.
const RECORD_HEADER: usize = 5;
/// The most that a record holds.
const RECORD_BYTES: usize = 16 << 10;

/// Smaller writes get no full buffer of their own.
const SMALL: usize = 1 << 10;

/// HTTP/1's pieces are joined up to this many bytes: a header and most answers fit.
const JOINED_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing is to be flushed, or nothing was asked.
    Clean,
    /// The task has asked to be polled again after the others.
    Yielded,
    /// The task has been polled again: the bytes that are flushed now go out.
    Due,
}

/// Whether memcpy from here into a record takes fifteen times as long. On Zen 3
/// and 4, `rep movsb`, which glibc before 2.39 copies by, does where the target is
/// up to 15 bytes further into its page than the source.
fn copies_slowly(bytes: &[u8]) -> bool {
    let from = bytes.as_ptr().addr() % PAGE;
    (1..16).contains(&((RECORD_HEADER + PAGE).saturating_sub(from) % PAGE))
}

#[derive(Debug)]
pub(in crate::server) struct Coalesced {
    inner: Stream,
    protocol: Protocol,
    /// [`SKEW`] bytes and what is to be written, or nothing at all.
    buffer: Vec<u8>,
    /// How many bytes of `buffer` are written, or skew.
    sent: usize,
    /// Whether anything was written since the last flush.
    written: bool,
    turn: Turn,
    #[expect(dead_code, reason = "counts the connection as open until dropped")]
    seat: Option<Seat>,
}

#[derive(Debug)]
enum Protocol {
    Http1 { tls: bool },
    Http2(FrameMeter),
}

impl Coalesced {
    fn new(inner: Stream, protocol: Protocol, seat: Option<Seat>) -> Self {
        Self {
            inner,
            protocol,
            buffer: Vec::new(),
            sent: 0,
            written: false,
            turn: Turn::Clean,
            seat,
        }
    }

    pub(in crate::server) fn http1(inner: Stream, seat: Option<Seat>) -> Self {
        let tls = inner.get_ssl_digest().is_some();
        Self::new(inner, Protocol::Http1 { tls }, seat)
    }

    pub(in crate::server) fn http2(inner: Stream, meter: FrameMeter, seat: Option<Seat>) -> Self {
        Self::new(inner, Protocol::Http2(meter), seat)
    }

    fn gathers(&self) -> bool {
        matches!(self.protocol, Protocol::Http2(_))
    }

    /// Joins small pieces of HTTP/1, and lets large ones pass.
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
        let inner = Pin::new(&mut self.inner);
        match (&self.protocol, bufs) {
            // The rest of it lies better.
            (Protocol::Http1 { tls: true }, [buf])
                if buf.len() > RECORD_BYTES && copies_slowly(buf) =>
            {
                inner.poll_write(cx, buf.get(..SKEW).unwrap_or(buf))
            }
            _ => inner.poll_write_vectored(cx, bufs),
        }
    }

    fn begin_buffer(&mut self) {
        if self.buffer.is_empty() {
            self.buffer.resize(SKEW, 0);
            self.sent = SKEW;
        }
    }

    /// How many bytes were written to the buffer since it was last empty.
    fn gathered(&self) -> usize {
        self.buffer.len().saturating_sub(SKEW)
    }

    /// Writes what is gathered.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.buffer.get(self.sent..).filter(|r| !r.is_empty()) {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent = self.sent.saturating_add(written);
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
        if let Protocol::Http2(meter) = &mut this.protocol {
            if meter.state().has_stopped_reading() {
                // The connection's task has been told.
                return Poll::Pending;
            }
            if !meter.take_read() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
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
        let before = buf.filled().len();
        let this = &mut *self;
        let read = Pin::new(&mut this.inner).poll_read(cx, buf);
        if let Protocol::Http2(meter) = &mut this.protocol {
            match &read {
                Poll::Pending => meter.nothing_to_read(),
                Poll::Ready(_) => {
                    let bytes = buf.filled().get(before..).unwrap_or_default();
                    meter.received(bytes, Instant::now);
                }
            }
        }
        read
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
        if total > SMALL {
            // The buffer grows at once, rather than by doubling.
            self.buffer.reserve_exact(room);
        }
        // The last of them is cut where a record ends.
        let mut left = room;
        for buf in bufs {
            let taken = buf.get(..left).unwrap_or(buf);
            self.buffer.extend_from_slice(taken);
            left = left.saturating_sub(taken.len());
        }
        let written = room.saturating_sub(left);
        if let Protocol::Http2(meter) = &mut self.protocol {
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
        // h2 flushes after each frame, and once more after the last.
        let more = std::mem::take(&mut self.written);
        match self.turn {
            Turn::Clean | Turn::Due if !more => return self.drain_and_flush(cx),
            Turn::Clean => self.turn = Turn::Yielded,
            Turn::Yielded | Turn::Due => {}
        }
        if more {
            // A task that wakes itself is polled after all that are awake.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain_and_flush(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[async_trait]
impl Shutdown for Coalesced {
    async fn shutdown(&mut self) {
        // A client that reads no more does not miss the end.
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for Coalesced {
    fn id(&self) -> UniqueIDType {
        self.inner.id()
    }
}

impl Ssl for Coalesced {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.inner.get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.inner.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.inner.selected_alpn_proto()
    }
}

impl GetTimingDigest for Coalesced {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner.get_timing_digest()
    }

    fn get_read_pending_time(&self) -> Duration {
        self.inner.get_read_pending_time()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.inner.get_write_pending_time()
    }
}

impl GetProxyDigest for Coalesced {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.inner.get_proxy_digest()
    }

    fn set_proxy_digest(&mut self, digest: ProxyDigest) {
        self.inner.set_proxy_digest(digest);
    }
}

impl GetSocketDigest for Coalesced {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner.get_socket_digest()
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        self.inner.set_socket_digest(digest);
    }
}

#[async_trait]
impl Peek for Coalesced {
    async fn try_peek(&mut self, buf: &mut [u8]) -> io::Result<bool> {
        self.inner.try_peek(buf).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use http::{Request, Response};
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;
    use crate::server::listener::frame_meter::Http2State;

    fn gathering(inner: Stream) -> Coalesced {
        let meter = FrameMeter::new(Http2State::new(Instant::now()));
        Coalesced::http2(inner, meter, None)
    }

    #[tokio::test]
    async fn what_is_flushed_waits_for_the_others_turn() {
        let (mut client, server) = duplex(1 << 20);
        let mut server = gathering(Box::new(server));
        let mut arrived = vec![0; 100];
        poll_fn(|cx| {
            for frame in [b"ab", b"cd"] {
                assert!(Pin::new(&mut server).poll_write(cx, frame).is_ready());
                assert!(Pin::new(&mut server).poll_flush(cx).is_ready());
            }
            assert!(Pin::new(&mut server).poll_flush(cx).is_ready());
            Poll::Ready(())
        })
        .await;
        assert!(client.read(&mut arrived).now_or_never().is_none());
        poll_fn(|cx| {
            let mut nothing = [0];
            let mut nothing = ReadBuf::new(&mut nothing);
            let read = Pin::new(&mut server).poll_read(cx, &mut nothing);
            assert!(read.is_pending());
            assert!(Pin::new(&mut server).poll_write(cx, b"ef").is_ready());
            assert!(Pin::new(&mut server).poll_flush(cx).is_ready());
            Pin::new(&mut server).poll_flush(cx)
        })
        .await
        .unwrap();
        let read = client.read(&mut arrived).now_or_never();
        assert_eq!(read.unwrap().unwrap(), 6);
        assert_eq!(&arrived[..6], b"abcdef");
        // Bytes that nobody flushes in their turn go with the next.
        poll_fn(|cx| {
            assert!(Pin::new(&mut server).poll_write(cx, b"gh").is_ready());
            Pin::new(&mut server).poll_flush(cx)
        })
        .await
        .unwrap();
        let reads = |cx: &mut Context<'_>| {
            let mut nothing = [0];
            let mut nothing = ReadBuf::new(&mut nothing);
            let _pending = Pin::new(&mut server).poll_read(cx, &mut nothing);
            let _pending = Pin::new(&mut server).poll_read(cx, &mut nothing);
            Poll::Ready(())
        };
        poll_fn(reads).await;
        let read = client.read(&mut arrived).now_or_never();
        assert_eq!(read.unwrap().unwrap(), 2);
    }

    #[test]
    fn neither_frames_nor_pieces_lie_where_copies_are_slow() {
        let memory = vec![0; 4 * PAGE];
        let page = PAGE - memory.as_ptr().addr() % PAGE;
        for (offset, slow) in [(0, true), (4, true), (5, false), (SKEW, false)] {
            assert_eq!(copies_slowly(&memory[page + offset..]), slow, "{offset}");
        }
        for (offset, slow) in [(1, true), (10, true), (11, false), (PAGE, true)] {
            assert_eq!(
                copies_slowly(&memory[page + PAGE - offset..]),
                slow,
                "-{offset}"
            );
        }
    }

    /// As HTTP/1 writes: nothing waits, and where a piece begins makes no
    /// difference to what arrives.
    #[tokio::test]
    async fn pieces_pass_wherever_they_begin() {
        let piece: Vec<u8> = (0..40_000u32).map(|n| (n % 251) as u8).collect();
        let (mut client, server) = duplex(1 << 20);
        let mut server = Coalesced::http1(Box::new(server), None);
        for start in 0..PAGE {
            let piece = &piece[start..start + RECORD_BYTES + 1];
            server.write_all(piece).await.unwrap();
            server.flush().await.unwrap();
            let mut arrived = vec![0; piece.len()];
            client.read_exact(&mut arrived).await.unwrap();
            assert!(arrived == piece, "{start}");
        }
    }

    /// Small last frames, empty ones and pieces larger than a window.
    #[tokio::test]
    async fn nothing_is_left_behind() {
        const STREAMS: usize = 20;
        const PIECES: [usize; 5] = [10, 300, 20_000, 100_000, 1];
        // Less than is gathered, so that writes block.
        let (client, server) = duplex(10_000);
        let server: Stream = Box::new(gathering(Box::new(server)));
        let serving = tokio::spawn(async move {
            let mut connection = h2::server::handshake(server).await.unwrap();
            while let Some(accepted) = connection.accept().await {
                let Ok((_, mut respond)) = accepted else {
                    break;
                };
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                tokio::spawn(async move {
                    for piece in PIECES {
                        tokio::task::yield_now().await;
                        body.send_data(vec![7; piece].into(), false).unwrap();
                    }
                    body.send_data(bytes::Bytes::new(), true).unwrap();
                });
            }
        });
        let (send, connection) = h2::client::handshake(client).await.unwrap();
        tokio::spawn(connection);
        let read = (0..STREAMS).map(|_| {
            let mut send = send.clone();
            async move {
                let request = Request::get("https://a/").body(()).unwrap();
                send = send.ready().await.unwrap();
                let (response, _) = send.send_request(request, true).unwrap();
                let mut body = response.await.unwrap().into_body();
                let mut bytes = 0;
                while let Some(data) = body.data().await {
                    let data = data.unwrap();
                    bytes += data.len();
                    let _ = body.flow_control().release_capacity(data.len());
                }
                bytes
            }
        });
        let all = futures::future::join_all(read);
        let all = tokio::time::timeout(Duration::from_secs(10), all).await;
        let whole: usize = PIECES.iter().sum();
        assert!(all.expect("something is stuck").iter().all(|n| *n == whole));
        serving.abort();
    }
}
