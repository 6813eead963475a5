//! Writes a watch to its client as frames of a WebSocket, in a task of its own.

use std::time::Duration;

use apifront_watch_cache::watch::Watch;
use bytes::{Buf, Bytes};
use futures::{SinkExt, StreamExt};
use http::StatusCode;
use kubernetes_wire::negotiation::MediaType;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as WebSocketError};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::deprecation;
use super::detached::{Detached, detach_connection};
use super::head::{self, Kind};
use super::watch_stream::{StreamEnd, WatchHead};
use crate::server::exchange::{Exchange, Failure, wire_head};
use crate::server::listener::coalesce::Coalesced;
use crate::server::listener::slow_client::WRITE_TIMEOUT;
use crate::server::stage::context::RequestContext;
use crate::server::stage::handshake::Handshake;
use crate::server::stage::seats;
use crate::server::state::drain::Stopping;
use crate::shapes::SHAPE;

/// The longest message of a client. Clients have nothing to send, so each message is
/// read and dropped, but it must be held until its end. After a longer message the
/// connection is closed with 1009. kube-apiserver accepts 32 MiB.
const MAX_CLIENT_MESSAGE: usize = 64 << 10;

/// The number of bytes that are read at a time. Control frames are shorter.
const READ_BUFFER: usize = 1 << 10;

/// Small events are written together, up to about this size.
const WRITE_BUFFER: usize = 16 << 10;

/// How long a client may take to receive the close frame.
const LAST_WORD: Duration = Duration::from_secs(5);

/// Answers the handshake, and moves the connection to a task of its own.
pub(super) async fn start(
    exchange: &mut Exchange<'_>,
    ctx: &mut RequestContext,
    mut watch: Watch,
    handshake: &Handshake,
    told: &WatchHead,
) -> Result<(), Failure> {
    // The head has no room for warnings, but they are noted.
    deprecation::note(ctx, StatusCode::OK, &told.warnings);
    let mut head = handshake.answer();
    if let Some(shape) = &told.shape {
        head.headers.insert(SHAPE, shape.clone());
    }
    head::finish(Kind::WebSocketWatch, &mut head, exchange.request(), ctx).await;
    let head = wire_head::switching_protocols(&head);
    let stopping = ctx.generation().drain.stopping();
    let (mut client, mut detached) = detach_connection(exchange, ctx)?;
    detached.watches(watch.has_begun());
    tokio::spawn(async move {
        let end = match timeout(WRITE_TIMEOUT, write_head(&mut client, &head)).await {
            Ok(Ok(())) => run(client, &mut watch, stopping, &mut detached).await,
            Ok(Err(_)) | Err(_) => StreamEnd::ClientGone,
        };
        drop(watch);
        detached.end(end.as_str());
    });
    Ok(())
}

async fn write_head(client: &mut Coalesced, head: &[u8]) -> std::io::Result<()> {
    client.write_all(head).await?;
    client.flush().await
}

/// Writes events until the watch, the client or apifront ends. Then sends a close
/// frame and closes the connection.
async fn run(
    client: Box<Coalesced>,
    watch: &mut Watch,
    stopping: Stopping,
    detached: &mut Detached,
) -> StreamEnd {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(MAX_CLIENT_MESSAGE))
        .max_frame_size(Some(MAX_CLIENT_MESSAGE));
    let cut = FrameSplit::for_content_type(watch.content_type());
    let mut socket = WebSocketStream::from_raw_socket(client, Role::Server, Some(config)).await;
    let over = stopping.over();
    tokio::pin!(over);
    let (end, last_word) = loop {
        let batch = tokio::select! {
            biased;
            () = &mut over => {
                break (StreamEnd::ShuttingDown, Some(CloseCode::Away));
            }
            // Reading also answers pings.
            heard = socket.next() => match heard {
                Some(Ok(Message::Close(_))) | None => {
                    break (StreamEnd::ClientGone, Some(CloseCode::Normal));
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => break (StreamEnd::ClientGone, Some(blame(&error))),
            },
            batch = watch.next() => batch,
        };
        match batch {
            Ok((frames, events)) => {
                detached.sent(frames.len(), events, watch.has_begun());
                // A write may fail in the middle of a frame, so no close frame can
                // follow.
                let written = write(&mut socket, cut, frames);
                let write = seats::write(written, || detached.release_seats());
                match timeout(WRITE_TIMEOUT, write).await {
                    Ok(Ok(())) => detached.delivered(watch.arrived()),
                    Ok(Err(_)) => break (StreamEnd::ClientGone, None),
                    Err(_) => break (StreamEnd::TooSlow, None),
                }
                // The first objects of a watch may have taken long to write.
                if !watch.has_begun() {
                    tokio::task::yield_now().await;
                }
            }
            Err(end) => break (StreamEnd::Watch(end), Some(CloseCode::Normal)),
        }
    };
    match timeout(LAST_WORD, close(&mut socket, last_word)).await {
        Ok(Ok(())) => end,
        _ if end == StreamEnd::TooSlow => end,
        Ok(Err(_)) | Err(_) => StreamEnd::ClientGone,
    }
}

/// Sends a close frame, if there is a code for one, and closes the connection.
/// kube-apiserver closes with 1000, whatever code the client's own close frame has.
/// The library would repeat the client's code.
async fn close(
    socket: &mut WebSocketStream<Box<Coalesced>>,
    code: Option<CloseCode>,
) -> std::io::Result<()> {
    let stream = socket.get_mut();
    if let Some(code) = code {
        let [high, low] = u16::from(code).to_be_bytes();
        stream.write_all(&[0x88, 2, high, low]).await?;
        stream.flush().await?;
    }
    stream.shutdown().await
}

/// How a batch of events is cut into WebSocket frames.
#[derive(Clone, Copy)]
enum FrameSplit {
    /// Text frames of lines, with their newlines.
    Lines,
    /// Binary frames of messages, without the length before each message.
    Messages,
}

impl FrameSplit {
    fn for_content_type(content_type: &str) -> Self {
        if content_type.starts_with(MediaType::Protobuf.as_str()) {
            Self::Messages
        } else {
            Self::Lines
        }
    }

    fn next(self, events: &mut Bytes) -> (Data, Bytes) {
        match self {
            Self::Lines => {
                let newline = events.iter().position(|b| *b == b'\n');
                let line = newline.map_or(events.len(), |at| at.saturating_add(1));
                // The JSON is UTF-8, because cached objects were parsed.
                (Data::Text, events.split_to(line))
            }
            Self::Messages => {
                let length = events.try_get_u32().unwrap_or(u32::MAX);
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                (Data::Binary, events.split_to(length.min(events.len())))
            }
        }
    }
}

async fn write(
    socket: &mut WebSocketStream<Box<Coalesced>>,
    cut: FrameSplit,
    mut events: Bytes,
) -> Result<(), WebSocketError> {
    while !events.is_empty() {
        let (data, event) = cut.next(&mut events);
        let frame = Frame::message(event, OpCode::Data(data), true);
        socket.feed(Message::Frame(frame)).await?;
    }
    socket.flush().await
}

fn blame(error: &WebSocketError) -> CloseCode {
    match error {
        WebSocketError::Capacity(CapacityError::MessageTooLong { .. }) => CloseCode::Size,
        WebSocketError::Protocol(_) => CloseCode::Protocol,
        _ => CloseCode::Normal,
    }
}
