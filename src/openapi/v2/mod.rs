//! The document at `/openapi/v2`, merged from many servers' documents as
//! kube-aggregator does.

mod kinds;
mod merge_rules;
mod merged_document;
mod references;
mod spec;

pub(super) use merged_document::{Merged, Parts};
