//! Views: the part of a resource that is shown to a caller who may not see all of
//! it. With a view, a list or watch over all namespaces holds the objects of the
//! namespaces, and the single objects, that the caller may read.
//!
//! ```text
//! RBAC objects ──▶ places to ask about ──▶ SubjectAccessReviews ──▶ Visible
//! in the cache       (a hint)                (the grants)           a set
//! ```
//!
//! RBAC in memory tells which questions to ask, and when. A place is in a view only
//! if upstream allowed it, and only while RBAC in memory allows it too: so a lost
//! right is noticed without a question.
//!
//! A view belongs to one user, resource and verb. It lives while it is used. Its
//! task is in `follow.rs`, its grants are in `grants.rs`, and `view.rs` is the part
//! that requests use.

#[cfg(test)]
mod cost;
mod follow;
mod grants;
pub mod metrics;
mod question_budget;
mod registry;
mod settings;
#[cfg(test)]
mod tests;
mod view;
mod view_table;

use std::sync::Arc;

use async_trait::async_trait;
use kubernetes_wire::api::{Attributes, Status, UserInfo};
pub use metrics::{Refusal, ViewsMetrics};
pub use registry::{Asked, Views};
pub use settings::{ViewCallers, ViewsSettings};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
pub use view::{Coverage, Lacks, View};

use crate::authz::rbac::Rights;
use crate::authz::{Authorizer, PlaceReview};

/// The rights in memory, as they change. `None` while they are not known to be
/// current.
pub type KnownRights = Receiver<Option<Arc<Rights>>>;

#[async_trait]
pub trait Versions: Send + Sync {
    /// Returns the version of the store. `None` while there is no store.
    fn stored(&self) -> Option<u64>;

    /// Returns upstream's version at a time after this call began, or `None` if
    /// upstream cannot tell it.
    async fn upstream(&self) -> Option<u64>;
}

/// Decides about the places of a view.
#[async_trait]
pub trait Reviewer: Send + Sync {
    /// Tells whether the user may make the request with these attributes, by a
    /// decision that was asked for after `since`.
    async fn review(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        since: Instant,
    ) -> Result<PlaceReview, Status>;
}

#[async_trait]
impl Reviewer for Authorizer {
    async fn review(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        since: Instant,
    ) -> Result<PlaceReview, Status> {
        self.review_since(user, attributes, since).await
    }
}
