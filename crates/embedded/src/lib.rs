//! An API server in memory: kube-apiserver's HTTP surface over storage that lasts
//! as long as the process. `make run` serves it behind the proxy, and tests use it
//! as a backend.
//!
//! ```text
//! http (routing, negotiation, handlers) ─▶ registry (what is served, strategies)
//!   │                                        │
//!   └─▶ view/encoding (bytes) ◀── storage (versioned, ordered, watchable) ◀─┘
//! ```
//!
//! It speaks JSON, YAML and protobuf over plain HTTP/1.1 and h2c. There is no
//! authentication, no authorization and no controller: everybody who reaches it
//! may do everything, and a Deployment makes no pods. It must be served on
//! loopback only.

// No value from the wire or a file may cause a panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used
    )
)]

mod activity;
mod api_services;
mod apply;
mod discovery;
mod encoding;
mod flow_control;
mod http;
mod lifecycle;
mod meta;
mod registry;
mod samples;
mod schema;
mod server;
mod serving;
pub mod storage;
mod strategic;
mod table;
mod view;

pub use server::{EmbeddedServer, Options};
pub use serving::Handle;
