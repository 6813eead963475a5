//! Keeps stores equal to their upstream: one list and one watch per resource,
//! however many clients read it.

mod bookmark;
mod budget;
mod cache;
mod definition;
mod discovery;
mod entry;
mod fill;
mod follow;
mod frames;
mod lateness;
mod list;
mod machine;
mod page;
mod printer;
mod progress;
mod room;
mod run;
mod source;
mod tend;
#[cfg(test)]
mod tests;
mod watch_list;

pub use cache::{Cache, Route, Selection, Unavailable};
pub use entry::Entry;
pub use lateness::Late;
