//! Sockets, TLS, and the framing of HTTP/1 and HTTP/2, with the limits and deadlines
//! that hold for a connection whatever its requests are.

mod beginning_turns;
pub(super) mod coalesce;
pub(super) mod connection_deadlines;
pub(super) mod connections;
pub(super) mod foreign_request;
pub(super) mod frame_meter;
pub(super) mod framing;
pub(super) mod head;
pub(super) mod http1;
pub(super) mod http2;
pub(super) mod http2_head;
pub(super) mod large_heads;
pub(super) mod listen;
pub(super) mod loopback_guard;
pub(super) mod slow_client;
pub mod tls;
