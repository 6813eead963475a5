//! The listening side.

pub mod tls;
