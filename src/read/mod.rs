//! GET and LIST from the store, and the decision whether it may answer.

mod consistency;
mod plan;
mod reason;

pub use consistency::ensure;
pub mod encode;
pub use plan::{Freshness, ListPlan, WatchPlan, get, list, watch};
pub use reason::BypassReason;
