//! WATCH from the store: a cursor over the log, turned into frames.

mod bookmark_timer;
mod frame_writers;
mod session;
#[cfg(test)]
mod tests;
mod transition;

pub use frame_writers::{PartialMessageFrames, TransformedFrames, WholeFrames};
pub use session::{FrameWriter, Watch, WatchEnd, WatchOptions};
pub use transition::transition;
