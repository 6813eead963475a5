//! The watch cache's state of one resource: a persistent ordered snapshot and
//! the log of what changed.
//!
//! One writer (a reflector) publishes; any number of readers pull, from a
//! [`Snapshot`] or with a [`Cursor`] over the log. The store knows no HTTP, no
//! watcher and no clock of its own.

mod buffer;
mod checkpoints;
mod event;
mod fields;
mod filter;
mod key;
mod leaf;
mod log;
mod metadata;
mod object;
mod objects;
mod past;
mod publication;
mod resync;
mod retained;
mod snapshot;
mod state;
mod topic;

pub use event::{Change, Event};
pub use fields::{FieldTable, field_table};
pub use filter::{Filter, Unsupported};
pub use key::ObjectKey;
pub use leaf::{Derived, Kept, Leaf};
pub use log::{Cursor, Evicted, HISTORY_AGE, HISTORY_BYTES, Window};
pub use object::{MalformedObject, StoredObject};
pub use past::Memory;
pub use retained::{RETAINED_BYTES, RETENTION};
pub use snapshot::{Part, Scope, Snapshot};
pub use state::{Presentation, Progress, Resource, Store};
pub use topic::{Subscription, Topic};

#[cfg(test)]
mod tests;
