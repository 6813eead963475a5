//! No caller's rights, slowness or flood becomes another's.

mod connection_reuse;
mod fuzz_server;
mod http1_bytes;
mod http2_frames;
mod matrix;
mod nasty;
mod parameters;
mod question;
mod scope;
mod shown;
mod tenants;
mod vocabulary;
