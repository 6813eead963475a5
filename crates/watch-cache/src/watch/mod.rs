//! Answers WATCH from the store, with a cursor over the log whose events become
//! frames.

mod batch;
mod bookmark_items;
mod bookmark_timer;
mod client_frames;
mod frame_writer;
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
mod periodic_bookmarks;
mod session;
mod step;
mod stepper;
mod table_frames;
#[cfg(test)]
mod tests;
mod transition;
mod view;
mod visibility;
mod watch_client;
mod whole_frames;

pub use frame_writer::FrameWriter;
pub use groups::WatchGroups;
pub use metadata_frames::MetadataFrames;
pub use options::WatchOptions;
pub use session::Watch;
pub use step::{Step, WatchEnd};
pub use table_frames::TableFrames;
pub use transition::transition;
pub use visibility::{NotReached, Visibility};
pub use watch_client::{Given, Tally, WatchClient};
pub use whole_frames::WholeFrames;
