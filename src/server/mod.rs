//! The way of a request, from the socket to the answer. This is the only module
//! that knows all others. Start at `proxy.rs`.
//!
//! Its modules are listed from the ground up. Each uses only modules that are
//! listed before it (`tests/architecture.rs` checks this):
//!
//! - `listener`: sockets, TLS, HTTP/1 and HTTP/2 framing, limits of connections;
//! - `state`: the parts that serve requests, and those that a reload replaces;
//! - `stage`: what is known of a request so far;
//! - `answer`: answers from the cache, from memory, or passed on from an API
//!   server;
//! - `proxy`: the steps of a request, as a table of contents;
//! - `process`: start, reload and stop.

mod answer;
mod listener;
mod process;
mod proxy;
mod stage;
mod state;

pub use listener::listen::ListenError;
pub use listener::tls;
pub use process::apifront::{Apifront, backends, check, upstream_settings};
pub use process::build::BuildError;
pub use process::start_error::StartError;
