//! The server as a process: its start, its reloads and its stop.

pub(super) mod apifront;
mod background;
pub(super) mod build;
mod first_generation;
mod health_checks;
mod learn_deprecations;
mod listeners;
mod open_files;
mod reload;
mod settings;
pub(super) mod start_error;
