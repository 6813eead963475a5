//! Keeps stores equal to upstream with one list and one watch per resource,
//! however many clients read it.

mod aggregated;
mod cache;
mod claims;
mod custom_resource_definition;
mod diagnosis;
mod discovery;
mod earlier_events;
mod entry;
mod eviction;
mod freshness_probe;
mod initial_objects;
mod list;
mod list_error;
mod list_page;
mod list_progress;
mod memory_limit;
mod memory_pool;
mod origin;
mod owned_store;
mod pieces;
mod printer_check;
mod relist;
mod resume;
mod run;
mod saving;
mod source_encoding;
mod system_memory;
#[cfg(test)]
mod tests;
mod upstream_watch;
mod version_question;
mod watch_decoder;
mod watch_lag;
mod watch_list;

pub use aggregated::{ByGroup, Server, Servers};
pub use cache::{Cache, Route, Selection, Unavailable};
pub use diagnosis::{Diagnosis, diagnose};
pub use earlier_events::Wanted as WantedEvents;
pub use entry::Entry;
pub use system_memory::system_memory;
pub use watch_lag::LateEvent;
