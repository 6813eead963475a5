//! WATCH from the store: a cursor over the log, turned into frames.

mod bookmark_timer;
mod frame_writers;
mod metadata_frames;
mod session;
#[cfg(test)]
mod tests;
mod transition;

pub use frame_writers::{TableFrames, WholeFrames};
pub use metadata_frames::MetadataFrames;
pub use session::{FrameWriter, Watch, WatchEnd, WatchOptions};
pub use transition::transition;
