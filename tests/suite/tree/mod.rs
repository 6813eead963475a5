//! apifront before apifront: an edge cache before a central one before
//! kube-apiserver. Two hops must be as invisible as one.

mod identity;
mod itself;
mod middle;
mod reads;
mod streams;
mod watches;

use serde_json::Value;
use std::sync::Arc;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::pool::Lease;
use crate::harness::shared::Shared;

/// A cluster, an apifront before it, and another one before that.
struct Tree {
    cluster: Lease,
    upper: Apifront,
    lower: Apifront,
}

impl Tree {
    fn shared() -> Arc<Self> {
        static SHARED: Shared<Tree> = Shared::new();
        SHARED.get(Self::start)
    }

    async fn start() -> Self {
        let cluster = Cluster::leased(&[]).await;
        let upper = Apifront::start(&cluster, |_| {}).await;
        let lower = upper.start_below(&cluster, |_| {}).await;
        Self {
            cluster,
            upper,
            lower,
        }
    }

    /// Returns clients for the three ways to the cluster, beginning with the right
    /// one.
    fn ways(&self) -> [Client; 3] {
        [
            self.cluster.admin_client(),
            self.upper.admin_client(),
            self.lower.admin_client(),
        ]
    }
}

async fn watchers(front: &Apifront, resource: &str) -> u64 {
    let path = format!("/debug/cache?resource={resource}");
    let document = Client::plain(front.observability)
        .get(&path)
        .await
        .expect(200);
    document["resources"]
        .as_array()
        .and_then(|resources| resources.first())
        .and_then(|resource| resource["watchers"].as_u64())
        .unwrap_or(0)
}

fn version(list: &Value) -> &str {
    list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
}
