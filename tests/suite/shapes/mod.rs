//! Answers without managedFields for clients that do not ask for them: `shapes` in the
//! configuration. The right answer is kube-apiserver's own, without the member.

mod chain;
mod reads;
mod reload;
mod writes;

use std::ops::Deref;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::{Cluster, grant_everywhere};
use crate::harness::expect::DEBUG;
use crate::harness::objects::{cluster_role_binding, config_map};
use crate::harness::pool::Lease;

const SOON: Duration = Duration::from_secs(30);
const SHAPE: &str = "x-apifront-shape";
const DROPPED: &str = "drop=metadata.managedFields";

/// The users of the tests. All are of the group `people`, which may do everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// No rule names this user.
    Ann,
    /// The same user with a client that a rule names.
    AnnByAgent,
    Robot,
    /// A robot that an exception names.
    Keeper,
}

struct World {
    cluster: Lease,
    front: Apifront,
    namespace: String,
}

fn rules() -> Value {
    json!([
        { "name": "kept", "users": ["keeper"], "managedFields": "Keep" },
        { "name": "robots", "groups": ["robots"],
          "resources": ["configmaps", "*.apps"], "managedFields": "Drop" },
        { "name": "agents", "userAgents": ["lean/", "leaner/"], "managedFields": "Drop" },
    ])
}

impl World {
    async fn start(change: impl FnOnce(&mut Value)) -> Self {
        let cluster = Cluster::leased(&[]).await;
        let admin = cluster.admin_client();
        let people = cluster_role_binding("people", "cluster-admin", "Group", "people");
        grant_everywhere(&admin, &[people]).await;
        let namespace = cluster.namespace("shapes").await;
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        for n in 0..40 {
            let odd = if n % 2 == 1 { "yes" } else { "no" };
            let map = config_map(
                &format!("m-{n:02}"),
                json!({ "odd": odd }),
                json!({ "text": "x".repeat(8 << 10) }),
            );
            admin.post(&maps, &map).await.expect(201);
        }
        let deployment = deployment("web");
        let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        admin.post(&deployments, &deployment).await.expect(201);
        let front = Apifront::start(&cluster, |config| {
            config["shapes"] = rules();
            change(config);
        })
        .await;
        for list in [maps, deployments] {
            front.warm(&front.admin_client(), &list).await;
        }
        Self {
            cluster,
            front,
            namespace,
        }
    }

    fn client(&self, who: Who) -> Client {
        let (name, groups) = match who {
            Who::Ann | Who::AnnByAgent => ("ann", &["people"][..]),
            Who::Robot => ("robot", &["people", "robots"][..]),
            Who::Keeper => ("keeper", &["people", "robots"][..]),
        };
        let certificate = self.cluster.certificates.client(name, groups);
        let client = self.front.client(Some(&certificate));
        match who {
            Who::AnnByAgent => client.with_header("user-agent", "leaner/v2.1 (linux)"),
            _ => client.with_header("user-agent", "fat/v1 lean/v1"),
        }
    }

    fn path(&self, resource: &str) -> String {
        let api = match resource {
            "deployments" => "/apis/apps/v1",
            _ => "/api/v1",
        };
        format!("{api}/namespaces/{}/{resource}", self.namespace)
    }

    async fn count(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.front
            .metric(&format!("apifront_shape_{name}"), labels)
            .await
    }
}

fn deployment(name: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": "example.test/image:1" }] },
            },
        },
    })
}

/// Asks the API server and apifront for the same. Asks again while the server's answer
/// changes, or the cache is late.
async fn ask_both(server: &Client, front: &Client, path: &str, accept: &str) -> (Answer, Answer) {
    loop {
        let before = server.get_as(path, accept).await;
        let headers = [("accept", accept), DEBUG];
        let answer = front.send(Method::GET, path, &headers, "").await;
        let after = server.get_as(path, accept).await;
        let said = answer.header("x-apifront-cache");
        let is_late = ["filling", "not_proven_fresh", "first_read"]
            .iter()
            .any(|reason| said.ends_with(&format!("reason={reason}")));
        if before.body == after.body && !is_late {
            return (before, answer);
        }
    }
}

/// Returns the managers of an object, as the API server has them, without times.
async fn managers(admin: &Client, path: &str) -> Vec<Value> {
    let object = admin.get(path).await.expect(200);
    let fields = object["metadata"]["managedFields"].as_array();
    let mut managers = fields.expect("managedFields").clone();
    for manager in &mut managers {
        let manager = manager.as_object_mut().expect("an object");
        manager.remove("time").expect("a time");
    }
    // Their order is that of their times, in seconds.
    managers.sort_by_key(Value::to_string);
    managers
}

impl Deref for World {
    type Target = Apifront;

    fn deref(&self) -> &Apifront {
        &self.front
    }
}
