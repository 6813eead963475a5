//! Makes answers to requests: from the cache, from documents in memory, and about
//! apifront itself. `reply` sends them.

pub(super) mod cached;
mod convert;
pub(super) mod discovery;
pub(super) mod make_ahead;
pub(super) mod openapi;
pub(super) mod own;
pub(super) mod query;
pub(super) mod self_review;
pub(super) mod shadow;
