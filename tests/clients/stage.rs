//! What the scenario needs before any program starts: a cluster, rights, pages
//! of objects, guarded pods and a token that has expired.

use serde_json::{Value, json};

use super::library::Library;
use super::scenario::Way;
use crate::harness::cluster::{Cluster, create_namespace_named};
use crate::harness::objects::{cluster_role_binding, config_map, pod};

/// The group of all users as whom programs call.
pub const GROUP: &str = "clients";
/// The namespace with the objects that are read in pages.
pub const PAGES: &str = "pages";
pub const OBJECTS: usize = 50;
pub const LIMIT: usize = 7;

const MERGE: &str = "merge-patch+json";

pub struct Stage {
    pub cluster: Cluster,
    /// The token of a list's second page, whose version was compacted.
    pub expired: String,
}

impl Stage {
    pub async fn set_up(libraries: &[Library]) -> Self {
        let mut cluster = Cluster::start(&[]).await;
        let admin = cluster.admin_client();
        // A role of its own, so that apifront asks the cluster: members of
        // system:masters may do everything without being asked for.
        let binding = cluster_role_binding("clients", "cluster-admin", "Group", GROUP);
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        admin.post(path, &binding).await.expect(201);
        create_namespace_named(&admin, PAGES).await;
        let path = format!("/api/v1/namespaces/{PAGES}/configmaps");
        for number in 0..OBJECTS {
            let object = config_map(&format!("page-{number:02}"), json!({}), json!({}));
            admin.post(&path, &object).await.expect(201);
        }
        let stage = Self {
            expired: expired_token(&mut cluster).await,
            cluster,
        };
        for way in Way::ALL {
            create_namespace_named(&admin, way.changes()).await;
            // An informer that holds it has synced.
            let path = format!("/api/v1/namespaces/{}/configmaps", way.changes());
            let first = config_map("first", json!({}), json!({}));
            admin.post(&path, &first).await.expect(201);
            for library in libraries {
                stage.prepare(&way.namespace(library)).await;
            }
        }
        stage
    }

    /// Creates a program's own namespace, with a running pod that a disruption
    /// budget keeps from being evicted.
    async fn prepare(&self, namespace: &str) {
        let admin = self.cluster.admin_client();
        create_namespace_named(&admin, namespace).await;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let guarded = pod("guarded", json!({ "app": "guarded" }));
        admin.post(&pods, &guarded).await.expect(201);
        // Pods that do not run may always be evicted.
        let running = json!({ "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True" }],
        }});
        let status = format!("{pods}/guarded/status");
        admin.patch(&status, MERGE, &running).await.expect(200);
        let budgets = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": { "name": "guard" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } },
        });
        let budget = admin.post(&budgets, &budget).await.expect(201);
        // No controller runs here. While the status is older than the budget, an
        // eviction is answered with a time after which to ask again.
        let observed = json!({ "status": {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": 0,
            "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
        }});
        let status = format!("{budgets}/guard/status");
        admin.patch(&status, MERGE, &observed).await.expect(200);
    }

    /// Returns what a program is told when it starts.
    pub fn task(&self, namespace: &str, way: Way, kubeconfig: &std::path::Path) -> Value {
        json!({
            "kubeconfig": kubeconfig,
            "namespace": namespace,
            "changes": way.changes(),
            "pages": { "namespace": PAGES, "objects": OBJECTS, "limit": LIMIT },
            "expired": { "continue": self.expired, "resourceVersion": "1" },
        })
    }
}

/// Lists a page and forgets its version. kube-apiserver's cache remembers what
/// etcd has forgotten, so it is started again.
async fn expired_token(cluster: &mut Cluster) -> String {
    let admin = cluster.admin_client();
    let list = format!("/api/v1/namespaces/{PAGES}/configmaps?limit={LIMIT}");
    let page = admin.get(&list).await.expect(200);
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let later = config_map("later", json!({}), json!({}));
    let path = "/api/v1/namespaces/default/configmaps";
    admin.post(path, &later).await.expect(201);
    cluster.apiserver.kill();
    cluster.etcd.compact(cluster.etcd.revision().await).await;
    cluster.apiserver.start_again();
    cluster.wait_ready().await;
    let path = format!("{list}&continue={token}");
    admin.get(&path).await.expect(410);
    token.to_owned()
}
