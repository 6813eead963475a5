//! No caller's rights, slowness or flood becomes another's.

mod aside;
mod connection_reuse;
mod connections;
mod endless_watches;
mod frames;
mod fuzz_server;
mod hostile_backend;
mod http1_bytes;
mod http2_floods;
mod http2_frames;
mod matrix;
mod nasty;
mod neighbour;
mod parameters;
mod personal_browser;
mod question;
mod readers;
mod scope;
mod shared_reads;
mod shown;
mod tenants;
mod upstream;
mod victim;
mod vocabulary;
mod watch_starts;
