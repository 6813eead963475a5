//! The listening side.

pub(super) mod browser;
pub(super) mod coalesce;
pub(super) mod connections;
pub(super) mod frame_meter;
pub(super) mod framing;
pub(super) mod http1;
pub(super) mod http2;
pub(super) mod listen;
pub(super) mod loopback_guard;
pub(super) mod next_request;
pub(super) mod slow_client;
pub mod tls;
