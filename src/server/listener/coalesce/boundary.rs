//! Finds the end of a request on an HTTP/1 connection.
//!
//! The bytes after a request belong to the client's next request, or to the protocol
//! that it upgrades to. pingora would read all bytes that have come. So it is given
//! the bytes of its own request, and the others are kept for later.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use pingora_core::protocols::Stream;
use tokio::io::{AsyncRead, ReadBuf};

/// The most bytes after the request that are kept. A client that sends more must
/// wait until its request is answered.
const MAX_KEPT_BYTES: usize = 4 << 10;
/// The bytes of one read after the end of the request.
const READ_BUFFER_BYTES: usize = 512;

/// How many bytes of the request in progress are still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// All bytes that come: the length is not known in advance, or no request is in
    /// progress.
    All,
    Counted(u64),
}

#[derive(Debug)]
pub(super) struct Boundary {
    left: Left,
    /// Bytes after the request in progress.
    next: BytesMut,
}

impl Boundary {
    pub(super) fn new() -> Self {
        Self {
            left: Left::All,
            next: BytesMut::new(),
        }
    }

    /// Begins a request. `next` holds the bytes after its head that were read with
    /// it. `body` is the number of bytes that its body still has, or `None` if only
    /// its reader can tell.
    pub(super) fn begin_request(&mut self, body: Option<u64>, next: BytesMut) {
        self.left = body.map_or(Left::All, Left::Counted);
        self.next = next;
    }

    /// Ends the request. Returns the bytes after it that were read.
    pub(super) fn end_request(&mut self) -> BytesMut {
        self.left = Left::All;
        std::mem::take(&mut self.next)
    }

    /// Gives the reader all bytes from here on.
    pub(super) fn open(&mut self) {
        self.left = Left::All;
    }

    /// Tells whether the client may still be sending: a body, another request, or
    /// another protocol.
    pub(super) fn expects_more(&self) -> bool {
        self.left != Left::Counted(0) || !self.next.is_empty()
    }

    pub(super) fn poll_read(
        &mut self,
        inner: &mut Stream,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = match self.left {
            Left::Counted(0) => return self.poll_closed(inner, cx),
            Left::Counted(left) => left,
            Left::All if self.next.is_empty() => return Pin::new(inner).poll_read(cx, buf),
            Left::All => {
                let taken = self.next.len().min(buf.remaining());
                buf.put_slice(self.next.get(..taken).unwrap_or_default());
                self.next.advance(taken);
                return Poll::Ready(Ok(()));
            }
        };
        let before = buf.filled().len();
        ready!(Pin::new(inner).poll_read(cx, buf))?;
        let read = buf.filled().get(before..).unwrap_or_default();
        let own = usize::try_from(left).map_or(read.len(), |left| read.len().min(left));
        self.next
            .extend_from_slice(read.get(own..).unwrap_or_default());
        self.left = Left::Counted(left.saturating_sub(own as u64));
        buf.set_filled(before.saturating_add(own));
        Poll::Ready(Ok(()))
    }

    /// Keeps the bytes after the request. Resolves only when the client closes.
    fn poll_closed(&mut self, inner: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.next.len() < MAX_KEPT_BYTES {
            let mut read = [0; READ_BUFFER_BYTES];
            let mut read = ReadBuf::new(&mut read);
            ready!(Pin::new(&mut *inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.next.extend_from_slice(read.filled());
        }
        // The reader also waits for its answer.
        Poll::Pending
    }
}
