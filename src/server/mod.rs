//! The way of a request, from the socket to the answer. This is the only module
//! that knows all others. Start at `steps.rs`.
//!
//! Its modules are listed from the ground up. Each uses only modules that are
//! listed before it (`tests/architecture/rooms.rs` checks this):
//!
//! - `listener`: sockets, TLS, HTTP/1 and HTTP/2 framing, limits of connections;
//! - `exchange`: a request and its answer, as the rooms above see them;
//! - `state`: the parts that serve requests, and those that a reload replaces;
//! - `stage`: what is known of a request so far;
//! - `offload`: work that would hold up a thread of connections;
//! - `reply`: the heads of all answers, and the bodies of those that are made here;
//! - `answer`: makes answers from the cache and from memory;
//! - `forward`: passes requests on to API servers, and their answers back;
//! - `steps`: how a request is answered, as a table of contents;
//! - `proxy`: pingora's phases;
//! - `process`: start, reload and stop.

mod answer;
mod exchange;
mod forward;
mod listener;
mod offload;
mod process;
mod proxy;
mod reply;
mod stage;
mod state;
mod steps;

pub use listener::listen::ListenError;
pub use listener::tls;
pub use process::apifront::{Apifront, backends, check, upstream_settings};
pub use process::build::BuildError;
pub use process::start_error::StartError;
