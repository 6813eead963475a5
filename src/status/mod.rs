//! The parts of the status page: who talks most, the history of the last hour,
//! what the process uses, and the page itself. `server/answer/status.rs` puts
//! them together with what other rooms say about themselves.

mod history;
pub mod page;
pub mod talkers;
mod usage;

pub use history::{History, Reading, SAMPLE_EVERY, Sample};
pub use usage::{Usage, UsageReader};
