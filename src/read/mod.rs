//! GET and LIST from the store, and the decision whether it may answer.

mod body;
mod consistency;
pub mod legacy_watch;
mod plan;
mod reason;

pub use body::{Shape, get_body, list_body, select};
pub use consistency::ensure;
pub use plan::{Freshness, ListPlan, WatchPlan, get, list, watch};
pub use reason::BypassReason;
