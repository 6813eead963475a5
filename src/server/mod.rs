//! The way of a request, from the socket to the answer. The only module that knows
//! all others. Start at `proxy.rs`.
//!
//! Its rooms, from the ground up, each of which uses only those below it
//! (`tests/architecture.rs` holds them to it):
//!
//! - `listener`: sockets, TLS, HTTP/1 and HTTP/2 framing, limits of connections;
//! - `state`: what requests are served with, and what of it a reload replaces;
//! - `stage`: what is known of a request so far;
//! - `answer`: from the cache, from memory, or passed on from an API server;
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
pub use process::apifront::{Apifront, check};
pub use process::build::BuildError;
pub use process::start_error::StartError;
