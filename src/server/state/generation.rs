//! The settings in force, with the parts that are made from one configuration.

use std::ops::Deref;
use std::sync::Arc;

use super::gate::Gate;
use super::process_state::ProcessState;
use super::settings::ServerSettings;
use crate::aggregation::Aggregation;

/// Everything that a request may need. A reload replaces the generation as a whole.
/// A request keeps the generation with which it began.
pub(crate) struct Generation {
    pub settings: Arc<ServerSettings>,
    pub gate: Gate,
    pub aggregation: Arc<Aggregation>,
    pub process: Arc<ProcessState>,
}

impl Deref for Generation {
    type Target = ProcessState;

    fn deref(&self) -> &ProcessState {
        &self.process
    }
}
