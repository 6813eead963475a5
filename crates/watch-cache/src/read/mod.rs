//! Answers GET and LIST from the store, and decides whether the store may
//! answer.

mod body;
mod bypass_reason;
mod consistency;
mod hit_cost;
pub mod legacy_watch;
mod option_rules;
mod own_writes;
mod page;
pub mod parameters;
mod shared;
mod shared_batch;
mod shared_listing;
mod shared_plan;
mod shared_state;
mod shared_upstream;
mod upstream_features;
#[cfg(test)]
mod view_tests;
mod written_version;

pub use body::{
    Ahead, GzipList, NotDeflated, Shape, ShapeKind, bytes_to_make, bytes_to_make_of_page, get_body,
    list_body, list_forms, makes_more_than,
};
pub use bypass_reason::BypassReason;
pub use consistency::{AnswerSource, Consistent, reached};
pub use hit_cost::HitCost;
pub use option_rules::{Freshness, ListPlan, ListVersion, WatchPlan, get, list, watch};
pub use own_writes::{LastWrite, OpenWrite, OwnWrites};
pub use page::{Page, Selection, page};
pub use shared::{SharedReads, Unanswered};
pub use shared_plan::{ListQuery, Question};
pub use shared_state::{SharedPage, SharedState};
pub use upstream_features::UpstreamFeatures;
pub use written_version::WrittenVersion;
