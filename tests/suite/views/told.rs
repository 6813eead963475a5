//! Reports about views: metrics and the audit log.

use serde_json::{Value, json};

use super::world::{MAPS, SOON, World};
use crate::harness::eventually;
use crate::harness::process::temporary_folder;
use crate::harness::watch::Watch;

#[tokio::test]
async fn metrics_and_audit_events_tell_of_views() {
    skip_under_oracle!("kube-apiserver has no views");
    let folder = temporary_folder("views-audit");
    let (policy, log) = (folder.join("policy.yaml"), folder.join("audit.log"));
    let rules = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}],
    });
    std::fs::write(&policy, rules.to_string()).expect("policy");
    let world = World::start(3, |config| {
        config["observability"]["auditPolicyFile"] = json!(policy);
        config["observability"]["auditLogPath"] = json!(log);
    })
    .await;
    let [first, second, _] = &world.namespaces[..] else {
        panic!("three namespaces");
    };
    let front = &world.front;
    let of = async |name: &str, labels: &[(&str, &str)]| front.metric(name, labels).await;
    let reviews = "apifront_views_reviews_total";
    assert_eq!(of(reviews, &[]).await, 0.0);
    world.grant(first).await;
    let client = world.client();
    world.settled(&client, &[first]).await;
    // Each namespace causes one question for lists and one for watches. Late RBAC
    // upstream may add some.
    assert_eq!(of(reviews, &[("result", "allowed")]).await, 2.0);
    for _ in 0..20 {
        client.get(MAPS).await.expect(200);
    }
    assert_eq!(of(reviews, &[("result", "allowed")]).await, 2.0);
    let watch = Watch::open(&client, &format!("{MAPS}?watch=1")).await;
    eventually("the gauges", SOON, || async {
        of("apifront_views", &[]).await == 2.0 && of("apifront_views_watched", &[]).await == 1.0
    })
    .await;
    world.grant(second).await;
    world.settled(&client, &[first, second]).await;
    world.revoke(second).await;
    world.settled(&client, &[first]).await;
    let changes = "apifront_views_transitions_total";
    assert!(of(changes, &[("change", "gained")]).await >= 1.0);
    assert!(of(changes, &[("change", "lost")]).await >= 1.0);
    // Bindings of other users cause no questions.
    let before = of(reviews, &[]).await;
    world
        .bind(second, &world.role, "User", "somebody-else")
        .await;
    client.get(MAPS).await.expect(200);
    assert_eq!(of(reviews, &[]).await, before);
    assert!(of("apifront_views_answers_total", &[("verb", "list")]).await >= 20.0);
    assert_eq!(
        of("apifront_views_answers_total", &[("verb", "watch")]).await,
        1.0
    );
    drop(watch);

    let events = std::fs::read_to_string(&log).expect("the log");
    let events: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect();
    let of_views: Vec<&Value> = events
        .iter()
        .filter(|event| event["user"]["username"] == world.tenant.as_str())
        .filter(|event| event["stage"] == "ResponseComplete")
        .filter(|event| event["responseStatus"]["code"] == 200)
        .collect();
    assert!(of_views.len() >= 20, "{}", of_views.len());
    for event in of_views {
        let annotations = &event["annotations"];
        assert_eq!(
            annotations["authorization.k8s.io/decision"], "allow",
            "{event}"
        );
        let reason = annotations["authorization.k8s.io/reason"].as_str();
        assert!(
            reason.is_some_and(|r| r.starts_with("apifront: a view of ")),
            "{event}"
        );
    }
    // No metric names the tenant or a namespace.
    let text = front.metrics().await;
    assert!(!text.contains(&world.tenant) && !text.contains(first.as_str()));
}
