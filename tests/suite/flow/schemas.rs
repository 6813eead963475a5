//! Tests FlowSchemas and PriorityLevelConfigurations that change while requests
//! are served.

use std::time::Duration;

use serde_json::{Value, json};

use super::{level_of, schema_of};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, unique};
use crate::harness::eventually;
use crate::harness::objects::{self, FLOW_CONTROL};

const SOON: Duration = Duration::from_secs(30);

/// A schema for one user, with its own priority level.
struct Pair {
    name: String,
    schema_uid: String,
    level_uid: String,
}

impl Pair {
    async fn create(admin: &Client, user: &str) -> Self {
        let name = unique("flow");
        let level = objects::priority_level(
            &name,
            json!({
                "type": "Limited",
                "limited": { "nominalConcurrencyShares": 1, "limitResponse": { "type": "Reject" } },
            }),
        );
        let schema = objects::flow_schema(
            &name,
            json!({
                "priorityLevelConfiguration": { "name": name },
                "matchingPrecedence": 1000,
                "distinguisherMethod": { "type": "ByUser" },
                "rules": [{
                    "subjects": [{ "kind": "User", "user": { "name": user } }],
                    "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
                    "resourceRules": [{
                        "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                        "clusterScope": true, "namespaces": ["*"],
                    }],
                }],
            }),
        );
        let levels = format!("{FLOW_CONTROL}/prioritylevelconfigurations");
        let level = admin.post(&levels, &level).await.expect(201);
        let schema = admin
            .post(&format!("{FLOW_CONTROL}/flowschemas"), &schema)
            .await
            .expect(201);
        let uid = |object: &Value| {
            object["metadata"]["uid"]
                .as_str()
                .expect("a UID")
                .to_owned()
        };
        Self {
            name,
            schema_uid: uid(&schema),
            level_uid: uid(&level),
        }
    }

    async fn delete(&self, admin: &Client) {
        for resource in ["flowschemas", "prioritylevelconfigurations"] {
            let path = format!("{FLOW_CONTROL}/{resource}/{}", self.name);
            assert_eq!(admin.delete(&path).await.status, 200, "{path}");
        }
    }
}

/// Kubernetes' own end-to-end test of the feature, with answers from memory.
#[tokio::test]
async fn requests_are_classified_by_objects_that_were_just_added() {
    let (cluster, front) = (Cluster::shared(), Apifront::shared());
    let admin = front.admin_client();
    let user = unique("flow-user");
    let pair = cluster.certificates.client(&user, &["people"]);
    let (direct, through) = (cluster.client(Some(&pair)), front.client(Some(&pair)));
    // The caller may not read this, so apifront itself answers.
    let path = "/api/v1/namespaces/default/secrets/s?resourceVersion=0";
    let before = schema_of(&direct.get(path).await);
    assert_eq!(schema_of(&through.get(path).await), before);
    let added = Pair::create(&admin, &user).await;
    for client in [&direct, &through] {
        eventually("the new schema is in force", SOON, || async {
            let answer = client.get(path).await;
            schema_of(&answer).as_ref() == Some(&added.schema_uid)
                && level_of(&answer).as_ref() == Some(&added.level_uid)
        })
        .await;
    }
    added.delete(&admin).await;
    for client in [&direct, &through] {
        eventually("the new schema is gone", SOON, || async {
            schema_of(&client.get(path).await) == before
        })
        .await;
    }
}

#[tokio::test]
async fn a_reload_shares_out_other_seats() {
    skip_under_oracle!("kube-apiserver reads its flags once");
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, |_| {}).await;
    let level = [("priority_level", "exempt")];
    let nominal = "apiserver_flowcontrol_nominal_limit_seats";
    let levels = [("priority_level", "global-default")];
    let before = front.metric(nominal, &levels).await;
    // The levels are those of a new cluster, and those of other tests.
    assert!(before > 10.0 && before <= 49.0, "{before}");
    assert_eq!(front.metric(nominal, &level).await, 0.0);
    let mut config = front.read_config();
    config["serving"]["maxRequestsInflight"] = json!(4000);
    config["serving"]["maxMutatingRequestsInflight"] = json!(2000);
    front.write_config(&config);
    eventually("ten times the seats", SOON, || async {
        front.metric(nominal, &levels).await > 9.0 * before
    })
    .await;
    let dump = "/debug/api_priority_and_fairness/dump_priority_levels";
    let dumped = front.admin_client().get(dump).await;
    assert_eq!(dumped.status, 200);
    assert!(
        dumped.text().contains("global-default,"),
        "{}",
        dumped.text()
    );
    let user = cluster.certificates.client("ulrich", &["people"]);
    assert_eq!(front.client(Some(&user)).get(dump).await.status, 403);
    front.stop().await;
}
