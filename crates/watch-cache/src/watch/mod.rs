//! Answers WATCH from the store, with a cursor over the log whose events become
//! frames.

mod batch;
mod bookmark_timer;
mod bookmarks;
mod client_frames;
mod frame_writers;
mod group;
mod group_member;
mod group_task;
mod groups;
mod in_group;
mod log_reader;
mod looked_at;
mod metadata_frames;
mod opening;
mod options;
mod session;
mod step;
mod stepper;
#[cfg(test)]
mod tests;
mod transition;
mod view;
mod visibility;
mod watch_client;

pub use frame_writers::{FrameWriter, TableFrames, WholeFrames};
pub use groups::WatchGroups;
pub use metadata_frames::MetadataFrames;
pub use options::WatchOptions;
pub use session::Watch;
pub use step::{Step, WatchEnd};
pub use transition::transition;
pub use visibility::{NotReached, Visibility};
pub use watch_client::{Given, Tally, WatchClient};
