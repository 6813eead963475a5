//! The end of an HTTP/1 connection whose client may still send.
//!
//! When a socket is closed while bytes come that nobody has read, the kernel resets
//! the connection, and the client may lose the end of its answer. So the connection
//! is closed for writing first, and what comes is thrown away until the client closes
//! it, too.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pingora_core::protocols::Stream;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Sleep;

/// The time that a client has to take its answer and to stop sending. Go's server
/// waits as long (`rstAvoidanceDelay`).
const LONGEST: Duration = Duration::from_millis(500);

/// The most bytes that are thrown away. Whoever sends more waits for the end.
const DISCARDED: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Linger {
    ends: Pin<Box<Sleep>>,
    discarded: usize,
}

impl Linger {
    pub(super) fn new() -> Self {
        Self {
            ends: Box::pin(tokio::time::sleep(LONGEST)),
            discarded: 0,
        }
    }

    pub(super) fn poll(&mut self, inner: &mut Stream, cx: &mut Context<'_>) -> Poll<()> {
        while self.discarded < DISCARDED {
            let mut read = [0; 4 << 10];
            let mut read = ReadBuf::new(&mut read);
            match Pin::new(&mut *inner).poll_read(cx, &mut read) {
                Poll::Pending => break,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) if read.filled().is_empty() => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {
                    self.discarded = self.discarded.saturating_add(read.filled().len());
                }
            }
        }
        self.ends.as_mut().poll(cx)
    }
}
