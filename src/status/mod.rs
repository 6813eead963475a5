//! The parts of the status page: who talks most, the history of the last hour,
//! what the process uses, what upstream is spared, and the page itself. `server/answer/status.rs` puts
//! them together with what other rooms say about themselves.

mod history;
pub mod page;
mod spared;
pub mod talkers;
mod usage;

pub use history::{History, Reading, SAMPLE_EVERY, Sample};
pub use spared::Spared;
pub use usage::{Usage, UsageReader};
