//! RBAC objects in memory and a caller, for tests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kubernetes_wire::api::{Attributes, UserInfo};
use parking_lot::Mutex;
use serde_json::json;

use super::rbac::{RbacObjects, Rights, SavedRbac};

/// Returns jane, and her question whether she may get the path.
pub(super) fn jane_gets(path: &str) -> (UserInfo, Attributes) {
    let user = UserInfo {
        name: "jane".into(),
        ..UserInfo::default()
    };
    let attributes = Attributes::NonResource {
        verb: "get".into(),
        path: path.into(),
    };
    (user, attributes)
}

/// RBAC objects that let jane get `/bound`, and the moment at which they were proven
/// fresh. `None`: nothing is in memory. Upstream cannot be asked for its version.
#[derive(Default)]
pub(super) struct Saved(Mutex<Option<Instant>>);

impl Saved {
    pub(super) fn proven(at: Option<Instant>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(at)))
    }

    pub(super) fn forget(&self) {
        *self.0.lock() = None;
    }
}

#[async_trait]
impl SavedRbac for Saved {
    async fn rights(&self) -> Option<(Arc<Rights>, Instant)> {
        let proven = (*self.0.lock())?;
        let role = json!({
            "metadata": {"name": "r"},
            "rules": [{"verbs": ["get"], "nonResourceURLs": ["/bound"]}],
        });
        let binding = json!({
            "metadata": {"name": "b"},
            "subjects": [{"kind": "User", "name": "jane"}],
            "roleRef": {"kind": "ClusterRole", "name": "r"},
        });
        let rights = Rights::read(&RbacObjects {
            cluster_roles: vec![role.to_string().into()],
            cluster_role_bindings: vec![binding.to_string().into()],
            ..RbacObjects::default()
        });
        Some((Arc::new(rights.unwrap()), proven))
    }

    async fn rights_within(&self, age: Duration) -> Option<(Arc<Rights>, Instant)> {
        let known = self.rights().await?;
        (known.1.elapsed() < age).then_some(known)
    }
}
