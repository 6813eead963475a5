//! No caller's rights, slowness or flood becomes another's.

mod connection_reuse;
mod connections;
mod frames;
mod fuzz_server;
mod hostile_backend;
mod http1_bytes;
mod http2_floods;
mod http2_frames;
mod matrix;
mod nasty;
mod parameters;
mod personal_browser;
mod question;
mod scope;
mod shown;
mod tenants;
mod upstream;
mod victim;
mod vocabulary;
