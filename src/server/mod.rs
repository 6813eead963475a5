//! The listening side: pingora services, the way of a request, TLS, reload and
//! shutdown. The only module that knows all others. Start at `proxy.rs`.

mod answer;
mod listener;
mod process;
mod proxy;
mod stage;
mod state;

pub use listener::listen::ListenError;
pub use listener::tls;
pub use process::apifront::{Apifront, StartError, check};
pub use process::build::BuildError;
