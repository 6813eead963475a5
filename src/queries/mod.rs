//! Queries: an API group of apifront's own, `query.apifront.dev`. Like a
//! SelfSubjectAccessReview, a Query is answered by the request that creates it, and
//! nothing is stored.

mod api_group;
mod metrics;
mod settings;

pub use api_group::{GROUP, KIND, group_version, kind, queries, source};
pub use metrics::{Outcome, QueryMetrics};
pub use settings::QueriesSettings;
