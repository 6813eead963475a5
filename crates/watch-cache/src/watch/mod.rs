//! WATCH from the store: a cursor over the log, turned into frames.

mod frames;
mod session;
#[cfg(test)]
mod tests;
mod transition;

pub use frames::{PartialMessageFrames, TransformedFrames, WholeFrames};
pub use session::{FrameWriter, Watch, WatchEnd, WatchOptions};
pub use transition::transition;
