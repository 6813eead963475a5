//! Clients without credentials: kube-apiserver's answers, and apifront's with and
//! without anonymous access.

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::differential::compare;
use crate::harness::expect::{DEBUG, Expect};

const PUBLIC: &str = "/api/v1/namespaces/kube-public/configmaps";
const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Creates the objects that kubeadm creates for `kubeadm join`.
async fn publish_cluster_info(cluster: &Cluster) {
    let admin = cluster.admin_client();
    let rights = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public";
    let name = json!({ "name": "cluster-info" });
    let info = json!({ "metadata": name, "data": { "kubeconfig": "" } });
    let role = json!({
        "metadata": name,
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"],
                    "resourceNames": ["cluster-info"], "verbs": ["get"] }],
    });
    let binding = json!({
        "metadata": name,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "cluster-info" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                       "name": "system:anonymous" }],
    });
    for (path, object) in [
        (PUBLIC.to_owned(), info),
        (format!("{rights}/roles"), role),
        (format!("{rights}/rolebindings"), binding),
    ] {
        admin.post(&path, &object).await.expect(201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anonymous_access_is_kube_apiservers_if_it_is_on() {
    let cluster = Cluster::leased(&[]).await;
    publish_cluster_info(&cluster).await;
    let on = Apifront::start(&cluster, |config| {
        config["authentication"]["anonymous"] = json!({ "enabled": true });
    })
    .await;
    let off = Apifront::start(&cluster, |_| {}).await;
    on.warm(&on.admin_client(), PUBLIC).await;
    let (direct, with, without) = (cluster.client(None), on.client(None), off.client(None));
    // Both servers close a connection after a request without credentials.
    for path in [
        "/version",
        CLUSTER_INFO,
        &format!("{CLUSTER_INFO}?resourceVersion=0"),
        PUBLIC,
        "/api/v1/namespaces",
        "/apis",
        "/metrics",
    ] {
        let directly = direct.separate().get(path).await;
        let through = with.separate().get(path).await;
        let difference = compare(&directly, &through);
        assert!(
            difference.is_empty(),
            "{path} (- direct, + front)\n{difference}"
        );
        assert_eq!(without.separate().get(path).await.status, 401, "{path}");
    }
    for path in ["/version", CLUSTER_INFO] {
        assert_eq!(direct.separate().get(path).await.status, 200, "{path}");
    }
    let cached = format!("{CLUSTER_INFO}?resourceVersion=0");
    let with_debug = with.separate();
    let answer = with_debug.send(Method::GET, &cached, &[DEBUG], "").await;
    let unmet = Expect::Hit.unmet(&answer);
    assert!(unmet.is_empty(), "{unmet}");
    for path in HEALTH {
        for client in [&direct, &with, &without] {
            assert_eq!(client.separate().get(path).await.status, 200, "{path}");
        }
    }
    on.stop().await;
    off.stop().await;
}
