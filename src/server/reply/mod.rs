//! Sends answers to clients: the heads of all of them, and the bodies of those that
//! are made here.

mod aggregator_headers;
pub(super) mod answer;
mod body_chunks;
pub(super) mod compression;
pub(super) mod cors;
pub(super) mod deprecation;
pub(super) mod detached;
pub(super) mod event_stream;
pub(super) mod head;
pub(super) mod refusal;
pub(super) mod send;
mod watch_client;
pub(super) mod watch_stream;
mod websocket_watch;
