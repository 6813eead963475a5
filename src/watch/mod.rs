//! WATCH from the store: a cursor over the log, turned into frames.

mod frames;
mod session;
#[cfg(test)]
mod tests;
mod transition;

pub use frames::{JsonFrames, TransformedFrames};
pub use session::{Encoding, Watch, WatchEnd, WatchOptions};
pub use transition::transition;
