//! A cluster whose API server may go away, and callers with equal rights, only some
//! of whom the configuration names.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::apiserver::TOKEN_USERS;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::{cluster_role_binding, config_map};
use crate::harness::pool::Lease;

/// The loss of a server is noticed within seconds; a busy machine needs longer.
pub const SOON: Duration = Duration::from_secs(60);
pub const ALLOWED: Duration = Duration::from_secs(2);
pub const STALENESS: Duration = Duration::from_secs(4);

/// More writes than a cluster gets while a test has it.
const WRITES_OF_A_TEST: u64 = 400;
/// The beginning of each degraded answer's warning.
const WARNING: &str = "299 - \"no API server can be reached: ";

pub struct World {
    pub cluster: Lease,
    pub namespace: String,
    /// A token of the service account `agent`.
    pub agent: String,
}

impl World {
    pub async fn start() -> Self {
        let cluster = Cluster::leased(&[]).await;
        let admin = cluster.admin_client();
        let namespace = cluster.namespace("degraded").await;
        for name in ["first", "kept"] {
            let object = config_map(name, json!({"app": name}), json!({"key": "value"}));
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            admin.post(&path, &object).await.expect(201);
        }
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({
            "metadata": {"name": "reads"},
            "rules": [
                {
                    "apiGroups": ["", "apps"],
                    "resources": ["configmaps", "pods", "secrets", "deployments", "services"],
                    "verbs": ["get", "list", "watch", "create"],
                },
                {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]},
                {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"]},
            ],
        });
        admin
            .post(&format!("{rbac}/clusterroles"), &role)
            .await
            .expect(201);
        let group = format!("system:serviceaccounts:{namespace}");
        for (kind, subject) in [("User", "tess"), ("User", "theo"), ("Group", &*group)] {
            let name = format!("reads-{}", subject.replace(':', "-"));
            let binding = cluster_role_binding(&name, "reads", kind, subject);
            admin
                .post(&format!("{rbac}/clusterrolebindings"), &binding)
                .await
                .expect(201);
        }
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let account = json!({"metadata": {"name": "agent"}});
        admin.post(&accounts, &account).await.expect(201);
        let mut world = Self {
            cluster,
            namespace,
            agent: String::new(),
        };
        world.agent = world.new_token().await;
        world.pass_lengths_of_versions().await;
        world
    }

    /// Writes until all versions of a test have the same number of digits: answers
    /// from two moments are compared byte by byte.
    async fn pass_lengths_of_versions(&self) {
        let admin = self.cluster.admin_client();
        let namespace = format!("/api/v1/namespaces/{}", self.namespace);
        loop {
            let list = admin.get(&self.path("configmaps")).await.expect(200);
            let version = list["metadata"]["resourceVersion"].as_str();
            let version = version.expect("a version");
            let longer = 10_u64.pow(version.len() as u32);
            let left = longer - version.parse::<u64>().expect("a number");
            if left > WRITES_OF_A_TEST {
                return;
            }
            for n in 0..left {
                let change = json!({"metadata": {"annotations": {"n": n.to_string()}}});
                let answer = admin.patch(&namespace, "merge-patch+json", &change).await;
                answer.expect(200);
            }
        }
    }

    pub async fn new_token(&self) -> String {
        let path = format!(
            "/api/v1/namespaces/{}/serviceaccounts/agent/token",
            self.namespace
        );
        let request = json!({"spec": {"expirationSeconds": 3600}});
        let made = self.cluster.admin_client().post(&path, &request).await;
        let token = made.expect(201)["status"]["token"].take();
        token.as_str().expect("a token").to_owned()
    }

    pub fn path(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.namespace)
    }

    /// Starts an apifront with this `cache.degraded`, which names callers, and waits
    /// until these may read.
    pub async fn front(&self, degraded: Value) -> Apifront {
        let front = Apifront::start(&self.cluster, |config| {
            config["upstream"]["connectTimeout"] = json!("5s");
            config["cache"]["maxStaleness"] = json!(format!("{}s", STALENESS.as_secs()));
            config["cache"]["degraded"] = degraded;
            let ttl = format!("{}s", ALLOWED.as_secs());
            config["authorization"] = json!({"subjectAccessReview": {
                "allowTTL": ttl, "denyTTL": ttl,
            }});
            config["authentication"]["tokenReview"] = json!({
                "enabled": true, "successTTL": ttl, "failureTTL": ttl,
            });
        })
        .await;
        for client in [tess(&front), theo(&front), self.agent(&front)] {
            let list = self.path("configmaps");
            eventually("the caller may read", SOON, || async {
                client.get(&list).await.status == 200
            })
            .await;
            front.warm(&client, &list).await;
        }
        front
    }

    pub fn agent(&self, front: &Apifront) -> Client {
        front.client(None).token(&self.agent)
    }

    /// Kills the API server, and waits until each front has noticed.
    pub async fn lose(&mut self, fronts: &[&Apifront]) {
        self.cluster.apiserver.kill();
        for front in fronts {
            becomes(front, 1.0).await;
        }
    }

    /// Starts the API server again, and waits until each front has noticed.
    pub async fn recover(&mut self, fronts: &[&Apifront]) {
        self.cluster.apiserver.start_again();
        self.cluster.wait_ready().await;
        for front in fronts {
            becomes(front, 0.0).await;
        }
    }
}

/// Returns the reads of the tests: config maps for tess' group and for service
/// accounts, and everything else by a star.
pub fn reads(more: &[&str]) -> Value {
    let mut resources = vec!["configmaps", "*.apps"];
    resources.extend(more);
    json!([
        {"resources": resources, "groups": ["developers", "system:serviceaccounts"]},
        {"resources": ["*"], "users": ["tess"]},
    ])
}

/// A caller whom the configuration names by group and by name.
pub fn tess(front: &Apifront) -> Client {
    front.client(None).token(TOKEN_USERS[0].token)
}

/// A caller with tess' rights whom the configuration does not name.
pub fn theo(front: &Apifront) -> Client {
    front.client(None).token(TOKEN_USERS[1].token)
}

pub async fn becomes(front: &Apifront, degraded: f64) {
    eventually("the mode", SOON, || async {
        front.metric("apifront_degraded", &[]).await == degraded
    })
    .await;
}

pub fn warning(answer: &Answer) -> Option<String> {
    let warnings = answer.headers.get_all("warning").iter();
    let mut texts = warnings.filter_map(|value| value.to_str().ok());
    let text = texts.find_map(|text| text.strip_prefix(WARNING))?;
    Some(text.trim_end_matches('"').to_owned())
}

/// Fails unless the answer is a 503 that clients retry after a while.
#[track_caller]
pub fn unavailable(what: &str, answer: &Answer) {
    assert_eq!(answer.status, 503, "{what}: {}", answer.text());
    let status = answer.json();
    assert_eq!(
        (&status["kind"], &status["reason"]),
        (&json!("Status"), &json!("ServiceUnavailable")),
        "{what}: {status}"
    );
    assert_eq!(answer.header("retry-after"), "1", "{what}");
    assert_eq!(warning(answer), None, "{what}");
}
