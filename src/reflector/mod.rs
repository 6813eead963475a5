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
#[cfg(test)]
mod tests;

pub use cache::{Cache, Selection, Unavailable};
pub use entry::Entry;
