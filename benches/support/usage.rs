//! The resources that a process uses, as Linux counts them.

pub use harness::process::{cpu_time, peak_bytes, resident_bytes, used};
