//! The parts of the status page: the top talkers, the history of the last hour, the
//! process's usage, an estimate of the work that upstream is spared, and the page
//! itself. `server/answer/own/status.rs` joins them with other parts of the program.

mod history;
pub mod page;
mod spared;
pub mod talkers;
mod usage;

pub use history::{History, Reading, SAMPLE_EVERY, Sample};
pub use spared::Spared;
pub use usage::{Usage, UsageReader};
