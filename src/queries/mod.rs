//! Queries: an API group of apifront's own, `query.apifront.dev`. Like a
//! SelfSubjectAccessReview, a Query is answered by the request that creates it, and
//! nothing is stored.

mod api_group;
mod settings;

pub use api_group::{GROUP, queries, source};
pub use settings::QueriesSettings;
