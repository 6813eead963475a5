//! The answers to requests: from the cache, from memory, or passed on from an API
//! server.

pub(super) mod aggregate;
pub(super) mod aggregator_headers;
pub(super) mod body_chunks;
pub(super) mod browsers;
pub(super) mod cached;
pub(super) mod compression;
pub(super) mod convert;
pub(super) mod cpu_offload;
pub(super) mod debug_cache;
mod debug_flow;
mod debug_shadow;
pub(super) mod deprecation;
pub(super) mod detached;
pub(super) mod discovery;
pub(super) mod forward;
mod head;
pub(super) mod make_ahead;
pub(super) mod observability;
mod offload_threads;
pub(super) mod openapi;
pub(super) mod own_endpoints;
pub(super) mod record_write;
pub(super) mod refusal;
pub(super) mod respond;
pub(super) mod shadow;
mod status;
mod status_report;
mod status_shadow;
pub(super) mod stream;
pub(super) mod upgrade;
mod upload;
mod watch_client;
pub(super) mod watch_frames;
pub(super) mod watch_stream;
pub(super) mod websocket_watch;
