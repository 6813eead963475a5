//! The metrics `apiserver_flowcontrol_*`.

use prometheus::Registry;

/// The metrics of one [`crate::Fairness`].
#[derive(Clone, Default)]
pub struct FairnessMetrics {}

impl FairnessMetrics {
    pub fn register(_registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self::default())
    }
}
