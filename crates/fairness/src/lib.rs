//! API Priority and Fairness (KEP-1040), as kube-apiserver does it
//! (k8s.io/apiserver `util/flowcontrol`).

// No value from the wire or a file may cause an arithmetic overflow or an index
// out of bounds.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]

mod classification;
mod clock;
mod fairness;
mod flow_hash;
mod level;
mod metrics;
mod objects;
mod rejected;
mod schema;
mod seats;
mod width;

pub use classification::Classification;
pub use fairness::{Fairness, Settings};
pub use metrics::FairnessMetrics;
pub use objects::{FlowSchema, Ignored, Objects, PriorityLevelConfiguration};
pub use rejected::Rejected;
pub use seats::Seats;
pub use width::Width;
