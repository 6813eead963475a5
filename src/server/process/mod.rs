//! The server as a process: its start, its reloads and its stop.

pub(super) mod apifront;
pub(super) mod build;
pub(super) mod learn_deprecations;
