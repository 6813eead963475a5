//! Views: what a caller may see of a resource who may not see all of it. A list
//! or watch over all namespaces then holds the objects of the namespaces, and
//! of the single names, that the caller may read.
//!
//! ```text
//! RBAC objects ──▶ places to ask about ──▶ SubjectAccessReviews ──▶ Visible
//! in the cache       (a hint)                (the grants)           a set
//! ```
//!
//! RBAC in memory tells which questions to ask and when to ask them. A place is
//! in a view only if upstream allowed it, and only as long as RBAC in memory
//! does, so that a lost right is noticed without a question.
//!
//! A view belongs to one user, resource and verb. It lives while somebody uses
//! it: `follow.rs` is its task, `grants.rs` what it knows, and `view.rs` what it
//! tells those who serve it.

mod budget;
#[cfg(test)]
mod cost;
mod follow;
mod grants;
pub mod metrics;
mod places;
mod registry;
mod settings;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use async_trait::async_trait;
use kubernetes_wire::api::{Attributes, Status, UserInfo};
pub use metrics::{Refusal, ViewsMetrics};
pub use registry::{Asked, Views};
pub use settings::ViewsSettings;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
pub use view::{Coverage, Lacks, View};

use crate::authz::rbac::Rights;
use crate::authz::{Authorizer, PlaceReview};

/// The rights in memory, as they change. `None` while they are not known to be
/// as upstream.
pub type KnownRights = Receiver<Option<Arc<Rights>>>;

/// The versions of a view's resource.
#[async_trait]
pub trait Versions: Send + Sync {
    /// Returns the version of the store. `None` if there is no store now.
    fn stored(&self) -> Option<u64>;

    /// Returns upstream's version at some time after this call began, or `None`
    /// if upstream cannot tell.
    async fn upstream(&self) -> Option<u64>;
}

/// Decides about the places of a view.
#[async_trait]
pub trait Reviewer: Send + Sync {
    /// Tells whether the user may do what the attributes say, by a decision that
    /// was asked for after `since`.
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
