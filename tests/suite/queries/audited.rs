//! The audit log has a query as it has every other creation.

use serde_json::{Value, json};

use super::{QUERIES, enable, query};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::process::temporary_folder;
use crate::views::world::SOON;

#[tokio::test]
async fn a_query_is_in_the_audit_log_with_its_answer() {
    skip_under_oracle!("kube-apiserver has no queries");
    let folder = temporary_folder("audited-queries");
    let (policy, log) = (folder.join("policy.json"), folder.join("log"));
    let rules = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "RequestResponse", "resources": [{ "group": "query.apifront.dev" }] }],
    });
    std::fs::write(&policy, rules.to_string()).unwrap();
    let front = Apifront::start(Cluster::quiet(), |config| {
        enable(config);
        config["observability"]["auditPolicyFile"] = json!(policy);
        config["observability"]["auditLogPath"] = json!(log);
    })
    .await;
    let client = front.admin_client();
    let asked = query(&json!({
        "resource": { "version": "v1", "resource": "namespaces" },
        "where": "object.metadata.name == 'default'",
    }));
    let answer = client.post(QUERIES, &asked).await.expect(201);
    let mut wrong = asked.clone();
    wrong["spec"]["where"] = json!("(");
    client.post(QUERIES, &wrong).await.expect(422);
    let events = || -> Vec<Value> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines.collect()
    };
    eventually("both events", SOON, || async { events().len() >= 2 }).await;
    let events = events();
    for (event, code) in events.iter().zip([201, 422]) {
        assert_eq!(event["verb"], "create", "{event:#}");
        assert_eq!(event["objectRef"]["resource"], "queries", "{event:#}");
        assert_eq!(
            event["objectRef"]["apiGroup"], "query.apifront.dev",
            "{event:#}"
        );
        assert_eq!(event["responseStatus"]["code"], code, "{event:#}");
    }
    assert_eq!(events[0]["requestObject"]["spec"], asked["spec"]);
    assert_eq!(events[0]["responseObject"]["status"], answer["status"]);
    assert_eq!(events[1]["requestObject"]["spec"]["where"], "(");
    assert_eq!(events[1]["responseStatus"]["reason"], "Invalid");
    front.stop().await;
}
