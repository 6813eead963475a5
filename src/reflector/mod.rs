//! Keeps stores equal to their upstream: one list and one watch per resource,
//! however many clients read it.

mod bookmark;
mod cache;
mod discovery;
mod entry;
mod frames;
mod list;
mod printer;
mod run;

pub use cache::{Cache, Selection, Unavailable};
pub use entry::Entry;
