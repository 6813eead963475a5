//! The state that serves requests: the parts that live as long as the process, and
//! those that a reload of the configuration replaces.

pub(super) mod api_service_watches;
pub(super) mod drain;
pub(super) mod flow_objects;
pub(super) mod gate;
pub(super) mod gauges;
pub(super) mod generation;
pub(super) mod known_rights;
pub(super) mod local_groups;
pub(super) mod process_state;
mod reading;
pub(super) mod saved_rbac;
pub(super) mod settings;
