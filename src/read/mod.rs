//! GET and LIST from the store, and the decision whether it may answer.

mod body;
mod consistency;
pub mod legacy_watch;
mod page;
mod plan;
mod reason;

pub use body::{Shape, get_body, list_body};
pub use consistency::ensure;
pub use page::{Page, Selection, page};
pub use plan::{Freshness, ListPlan, ListVersion, WatchPlan, get, list, watch};
pub use reason::BypassReason;
