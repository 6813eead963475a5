//! Creates groups of users, and namespaces for them.

use futures::StreamExt;
use serde_json::json;

use crate::harness::cluster::{Cluster, grant, unique};
use crate::harness::objects;

pub const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Creates a group, and a binding of the same name. Its members may do everything,
/// like administrators. Their requests are limited like everybody's, unlike those of
/// `system:masters`.
pub async fn administrators(purpose: &str) -> String {
    let group = unique(purpose);
    let binding = objects::cluster_role_binding(&group, "cluster-admin", "Group", &group);
    let admin = Cluster::shared().admin_client();
    admin.post(BINDINGS, &binding).await.expect(201);
    group
}

/// Creates a namespace with `count` config maps of `size` bytes. The group of the
/// same name may read and write these.
pub async fn namespace(purpose: &str, count: usize, size: usize) -> String {
    let cluster = Cluster::shared();
    let ns = cluster.namespace(purpose).await;
    let admin = cluster.admin_client();
    let verbs = ["get", "list", "watch", "create", "update"];
    let grants = [
        objects::role("own", &[""], &["configmaps", "secrets"], &verbs),
        objects::role_binding("own", "own", "Group", &ns),
    ];
    grant(&admin, &ns, &grants).await;
    let path = format!("/api/v1/namespaces/{ns}/configmaps");
    let create = |n: usize| {
        let data = json!({ "a": "x".repeat(size) });
        let object = objects::config_map(&format!("c{n:04}"), json!({ "n": n.to_string() }), data);
        let (admin, path) = (&admin, &path);
        async move { admin.post(path, &object).await.expect(201) }
    };
    let all = futures::stream::iter((0..count).map(create)).buffer_unordered(16);
    all.collect::<Vec<_>>().await;
    ns
}
