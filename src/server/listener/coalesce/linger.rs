//! The end of an HTTP/1 connection whose client may still send.
//!
//! If a socket is closed while unread bytes arrive, the kernel resets the
//! connection, and the client may lose the end of its answer. So the connection is
//! first closed for writing. Then bytes that come are thrown away until the client
//! closes it, too. Nothing waits for this, because the request has ended.

use std::time::Duration;

use pingora_core::protocols::Stream;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::OpenConnection;

/// How long a client may take to receive its answer and to stop sending. Go's server
/// waits as long (`rstAvoidanceDelay`).
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);

/// The most bytes that are thrown away. A client that sends more is not read any
/// more.
const MAX_DISCARDED_BYTES: usize = 4 << 20;

/// Waits for the end of a connection that is closed for writing. It counts as open
/// until then.
pub(super) async fn linger(mut stream: Stream, open: Option<OpenConnection>) {
    let discard = async {
        let mut read = [0; 4 << 10];
        let mut left = MAX_DISCARDED_BYTES;
        while let Ok(n @ 1..) = stream.read(&mut read).await {
            left = left.saturating_sub(n);
            if left == 0 {
                std::future::pending::<()>().await;
            }
        }
    };
    let _ = timeout(LINGER_TIMEOUT, discard).await;
    drop(open);
}
