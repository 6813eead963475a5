//! The listening side: pingora services, the way of a request, TLS, reload and
//! shutdown. The only module that knows all others. Start at `proxy.rs`.

mod admit;
mod aggregate;
mod aside;
mod audit;
mod build;
mod cached;
mod coalesce;
mod compression;
mod context;
mod convert;
mod debug;
mod deprecation;
mod detached;
mod discovery;
mod drain;
mod forward;
mod framing;
mod front;
mod header_deadline;
mod listen;
mod local;
mod observe;
mod openapi;
mod own_write;
mod pace;
mod personal;
mod proxy;
mod record;
mod relay;
mod respond;
mod run;
mod seats;
mod self_check;
mod stream;
pub mod tls;
mod upgrade;
mod watch_frames;
mod watch_stream;
mod websocket;
mod websocket_watch;
mod writes;

pub use build::BuildError;
pub use listen::ListenError;
pub use run::{Apifront, StartError, check};
