//! Keeps stores equal to upstream with one list and one watch per resource,
//! however many clients read it.

mod aggregated;
mod cache;
mod claims;
mod definition;
mod diagnosis;
mod discovery;
mod earlier_answers;
mod earlier_events;
mod entry;
mod eviction;
mod fill;
mod freshness;
mod freshness_probe;
mod initial_objects;
mod lifecycle;
mod list;
mod list_error;
mod list_page;
mod list_progress;
mod memory_limit;
mod memory_pool;
mod origin;
mod pieces;
mod presentation;
mod printer_check;
mod provenance;
mod resume;
mod run;
mod saved_header;
mod saving;
mod source_encoding;
mod store_slot;
mod system_memory;
#[cfg(test)]
mod tests;
mod unavailable;
mod upstream_watch;
mod usage;
mod version_question;
mod watch_decoder;
mod watch_lag;
mod watch_list;
mod withdrawn;

pub use aggregated::{ByGroup, Server, Servers};
pub use cache::{Cache, Route, Selection};
pub use diagnosis::{Diagnosis, diagnose};
pub use earlier_events::{NoEarlierEvents, Wanted as WantedEvents};
pub use entry::Entry;
pub use freshness::Freshness;
pub use lifecycle::Lifecycle;
pub use system_memory::system_memory;
pub use unavailable::Unavailable;
pub use usage::Usage;
pub use watch_lag::LateEvent;
