//! Answers WATCH from the store, with a cursor over the log whose events become
//! frames.

mod batch;
mod bookmark_timer;
mod frame_writers;
mod groups;
mod in_group;
mod metadata_frames;
mod session;
#[cfg(test)]
mod tests;
mod transition;
mod view;
mod visibility;

pub use frame_writers::{FrameWriter, TableFrames, WholeFrames};
pub use groups::{Given, Tally, WatchClient, WatchGroups};
pub use metadata_frames::MetadataFrames;
pub use session::{Step, Watch, WatchEnd, WatchOptions};
pub use transition::transition;
pub use visibility::{NotReached, Visibility};
