//! Whom a suite is asked of.

use super::apifront::Apifront;
use super::client::Client;
use super::cluster::{Cluster, create_namespace};

/// A server that claims to behave as kube-apiserver.
pub struct Subject {
    pub name: &'static str,
    /// May do everything.
    pub admin: Client,
}

impl Subject {
    /// The oracle itself: a suite that it fails is wrong.
    pub async fn kube_apiserver() -> Self {
        Self {
            name: "kube-apiserver",
            admin: Cluster::shared().admin_client(),
        }
    }

    pub async fn apifront() -> Self {
        Self {
            name: "apifront",
            admin: Apifront::shared().admin_client(),
        }
    }

    pub async fn namespace(&self, purpose: &str) -> String {
        create_namespace(&self.admin, purpose).await
    }
}
