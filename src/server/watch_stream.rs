//! Writing a watch to its client, in a task of its own.

use bytes::Bytes;
use pingora_core::protocols::http::ServerSession;
use tokio::sync::watch::Receiver;

use crate::watch::Watch;

/// How a watch's connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The watch itself says why.
    Watch(crate::watch::WatchEnd),
    ClientGone,
    ShuttingDown,
}

impl StreamEnd {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Watch(end) => end.as_str(),
            Self::ClientGone => "client_gone",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

/// Writes batches until the watch, the client or apifront ends, and ends the
/// stream in order where there is still somebody to tell. `sent` hears of each
/// batch: its bytes and events.
pub(super) async fn run(
    session: &mut ServerSession,
    watch: &mut Watch,
    stopping: &mut Receiver<bool>,
    mut sent: impl FnMut(usize, usize),
) -> StreamEnd {
    let end = loop {
        let batch = tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => break StreamEnd::ShuttingDown,
            // Resolves when the client hangs up; it has nothing more to say.
            _ = session.read_body_or_idle(true) => break StreamEnd::ClientGone,
            batch = watch.next() => batch,
        };
        match batch {
            Ok((frames, events)) => {
                sent(frames.len(), events);
                if session.write_response_body(frames, false).await.is_err() {
                    break StreamEnd::ClientGone;
                }
            }
            Err(end) => break StreamEnd::Watch(end),
        }
    };
    if end != StreamEnd::ClientGone
        && session
            .write_response_body(Bytes::new(), true)
            .await
            .is_err()
    {
        return StreamEnd::ClientGone;
    }
    end
}
