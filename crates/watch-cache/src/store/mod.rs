//! The watch cache's state of one resource: a persistent ordered snapshot and
//! the log of changes.
//!
//! One [`StoreWriter`] publishes, a reflector's; any number of readers pull, from a
//! [`Snapshot`] or with a [`Cursor`] over the log. The store knows no HTTP, no
//! watcher and no clock of its own.

mod buffer;
mod checkpoints;
mod cursor;
mod demanded_forms;
mod difference;
mod earlier_events;
mod earlier_snapshots;
mod event;
mod field_digest;
mod fields;
mod filter;
mod frame;
mod gatherer;
mod join;
mod kept_table_frames;
mod key;
mod key_ranges;
mod key_scope;
mod log;
mod memory;
mod metadata;
mod namespace_counts;
mod object;
mod object_tree;
mod publication;
mod replacement;
mod resource;
mod resync;
mod retained_snapshots;
mod saved_state;
mod shard_lines;
mod snapshot;
mod state;
mod state_at_place;
mod state_at_version;
mod texts;
mod topic;
mod topic_line;
mod tree_leaf;
mod view_lines;
mod visible;
mod wake_groups;
mod without_managed_fields;
mod writer;

pub use cursor::Cursor;
pub(crate) use demanded_forms::ROUND_TIME;
pub use demanded_forms::{Demand, ListForm};
pub use difference::Differing;
pub use earlier_events::EarlierEvents;
pub(crate) use earlier_events::SharedEvents;
pub use event::{Change, Event};
pub(crate) use field_digest::indexed_field;
pub use fields::{FieldTable, field_table};
pub use filter::{Filter, Unsupported};
pub use frame::{FrameKind, MadeFrame, SharedFrame};
pub(crate) use gatherer::{Gathered, Gatherer};
pub use kept_table_frames::TableShape;
pub use key::ObjectKey;
pub(crate) use key_ranges::KeyRanges;
pub use key_scope::KeyScope;
pub use log::{Evicted, HISTORY_AGE, Window};
pub use memory::{BytesBeside, Memory};
pub use object::{MalformedObject, StoredObject};
pub use resource::{Presentation, Resource};
pub(crate) use saved_state::{SavedEvent, SavedState};
pub use snapshot::{Part, Snapshot};
pub use state::{Progress, Store};
pub use topic::{Subscription, Topic};
pub use tree_leaf::{CountedValue, Derived, Leaf};
pub use visible::{Visible, VisibleEntry};
pub(crate) use wake_groups::MAX_GROUP_MEMBERS;
pub use without_managed_fields::ItemsWithoutManagedFields;
pub(crate) use without_managed_fields::without_managed_fields;
pub use writer::StoreWriter;

#[cfg(test)]
pub(crate) mod tests;
