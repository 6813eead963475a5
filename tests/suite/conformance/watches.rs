//! Watches from the version of a LIST.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::objects::{config_map, pod, pod_on_node};
use crate::harness::subject::Subject;
use crate::harness::watch::{End, Watch};

conformance!(
    events_in_order,
    label_selector_transitions,
    field_selector_transitions,
    single_object,
    all_namespaces,
    timeout_ends_the_stream,
    deleted_events_carry_the_last_state,
    watch_path_of_old,
    finalizers_on_the_wire,
);

fn version(object: &Value) -> &str {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.expect("a resourceVersion")
}

async fn version_of(subject: &Subject, list: &str) -> String {
    let list = subject.admin.get(list).await.expect(200);
    version(&list).to_owned()
}

async fn events_in_order(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("watch").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let from = version_of(&subject, &list).await;
    let mut watch = Watch::open(admin, &format!("{list}?watch=1&resourceVersion={from}")).await;
    for name in ["a", "b"] {
        let body = config_map(name, json!({}), json!({}));
        admin.post(&list, &body).await.expect(201);
    }
    let change = json!({"data": {"k": "1"}});
    let path = format!("{list}/a");
    admin
        .patch(&path, "merge-patch+json", &change)
        .await
        .expect(200);
    admin.delete(&path).await.expect(200);
    // A watch that opens later gets the same events as one that saw them happen.
    let expected = ["ADDED a", "ADDED b", "MODIFIED a", "DELETED a"];
    let events = watch.take(4).await;
    let short: Vec<String> = events.iter().map(|e| e.short()).collect();
    assert_eq!(short, expected);
    let versions: Vec<u64> = events.iter().map(|e| e.version()).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    let mut late = Watch::open(admin, &format!("{list}?watch=1&resourceVersion={from}")).await;
    let again: Vec<String> = late.take(4).await.into_iter().map(|e| e.line).collect();
    let lines: Vec<String> = events.into_iter().map(|e| e.line).collect();
    assert_eq!(again, lines);
    // A watch sends only events after the version that it asked for.
    let path = format!("{list}?watch=true&resourceVersion={}", versions[1]);
    let mut later = Watch::open(admin, &path).await;
    assert_eq!(later.take_short(2).await, ["MODIFIED a", "DELETED a"]);
}

async fn label_selector_transitions(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("transition").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let from = version_of(&subject, &list).await;
    let path = format!("{list}?watch=1&resourceVersion={from}&labelSelector=app%3Dweb");
    let mut watch = Watch::open(admin, &path).await;
    let body = config_map("a", json!({"app": "db"}), json!({"step": "0"}));
    admin.post(&list, &body).await.expect(201);
    let steps = [
        ("web", "1"),
        ("web", "2"),
        ("db", "3"),
        ("db", "4"),
        ("web", "5"),
    ];
    let mut versions = Vec::new();
    for (app, step) in steps {
        let change = json!({"metadata": {"labels": {"app": app}}, "data": {"step": step}});
        let object = admin
            .patch(&format!("{list}/a"), "merge-patch+json", &change)
            .await
            .expect(200);
        versions.push(version(&object).to_owned());
    }
    admin.delete(&format!("{list}/a")).await.expect(200);
    let events = watch.take(5).await;
    let seen: Vec<(&str, &str)> = events
        .iter()
        .map(|e| {
            (
                e.kind.as_str(),
                e.object["data"]["step"].as_str().unwrap_or(""),
            )
        })
        .collect();
    // An object that leaves the selection makes a DELETED event with the last
    // state that matched and the version of the change.
    assert_eq!(
        seen,
        [
            ("ADDED", "1"),
            ("MODIFIED", "2"),
            ("DELETED", "2"),
            ("ADDED", "5"),
            ("DELETED", "5")
        ]
    );
    assert_eq!(version(&events[2].object), versions[2]);
    assert_eq!(events[2].object["metadata"]["labels"]["app"], "web");
}

async fn field_selector_transitions(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("transition").await;
    let list = format!("/api/v1/namespaces/{ns}/pods");
    let from = version_of(&subject, &list).await;
    let node = format!("node-of-{ns}");
    let at = |selector: &str| format!("?watch=1&resourceVersion={from}&fieldSelector={selector}");
    let mut unbound = Watch::open(admin, &format!("{list}{}", at("spec.nodeName%3D"))).await;
    let mut bound = Watch::open(
        admin,
        &format!("/api/v1/pods{}", at(&format!("spec.nodeName%3D{node}"))),
    )
    .await;
    let mut running = Watch::open(admin, &format!("{list}{}", at("status.phase%3DRunning"))).await;
    admin.post(&list, &pod("a", json!({}))).await.expect(201);
    let target = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    admin
        .post(&format!("{list}/a/binding"), &target)
        .await
        .expect(201);
    for phase in ["Running", "Succeeded"] {
        let status = json!({"status": {"phase": phase}});
        let path = format!("{list}/a/status");
        admin
            .patch(&path, "merge-patch+json", &status)
            .await
            .expect(200);
    }
    assert_eq!(unbound.take_short(2).await, ["ADDED a", "DELETED a"]);
    assert_eq!(
        bound.take_short(3).await,
        ["ADDED a", "MODIFIED a", "MODIFIED a"]
    );
    let events = running.take(2).await;
    assert_eq!(events[1].kind, "DELETED");
    assert_eq!(events[1].object["status"]["phase"], "Running");
}

async fn single_object(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("single").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let from = version_of(&subject, &list).await;
    let path = format!("{list}?watch=1&resourceVersion={from}&fieldSelector=metadata.name%3Db");
    let mut watch = Watch::open(admin, &path).await;
    for name in ["a", "b", "c"] {
        let body = config_map(name, json!({}), json!({}));
        admin.post(&list, &body).await.expect(201);
    }
    admin.delete(&format!("{list}/c")).await.expect(200);
    admin.delete(&format!("{list}/b")).await.expect(200);
    assert_eq!(watch.take_short(2).await, ["ADDED b", "DELETED b"]);
}

async fn all_namespaces(subject: Subject) {
    let admin = &subject.admin;
    let (one, two) = (
        subject.namespace("every").await,
        subject.namespace("every").await,
    );
    let from = version_of(&subject, "/api/v1/configmaps?limit=1").await;
    let path =
        format!("/api/v1/configmaps?watch=1&resourceVersion={from}&labelSelector=every%3D{one}");
    let mut watch = Watch::open(admin, &path).await;
    for (namespace, name) in [(&one, "a"), (&two, "b")] {
        let body = config_map(name, json!({"every": one}), json!({}));
        let list = format!("/api/v1/namespaces/{namespace}/configmaps");
        admin.post(&list, &body).await.expect(201);
    }
    let events = watch.take(2).await;
    let namespaces: Vec<&Value> = events
        .iter()
        .map(|e| &e.object["metadata"]["namespace"])
        .collect();
    assert_eq!(namespaces, [&json!(one), &json!(two)]);
}

async fn timeout_ends_the_stream(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("timeout").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let from = version_of(&subject, &list).await;
    let started = std::time::Instant::now();
    let path = format!("{list}?watch=1&resourceVersion={from}&timeoutSeconds=1");
    let (events, end) = Watch::open(admin, &path).await.rest().await;
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(end, End::Clean);
    let took = started.elapsed();
    assert!(
        took > Duration::from_millis(900) && took < Duration::from_secs(5),
        "{took:?}"
    );
}

async fn deleted_events_carry_the_last_state(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("deleted").await;
    let list = format!("/api/v1/namespaces/{ns}/pods");
    let body = pod_on_node("a", json!({}), "no-such-node");
    let created = admin.post(&list, &body).await.expect(201);
    let path = format!("{list}?watch=1&resourceVersion={}", version(&created));
    let mut watch = Watch::open(admin, &path).await;
    // The deletion has two phases, since the node must confirm it.
    admin.delete(&format!("{list}/a")).await.expect(200);
    admin
        .delete(&format!("{list}/a?gracePeriodSeconds=0"))
        .await
        .expect(200);
    let events = watch.take(2).await;
    assert_eq!(events[0].kind, "MODIFIED");
    assert!(events[0].object["metadata"]["deletionTimestamp"].is_string());
    let last = events.last().expect("events");
    assert_eq!(last.object["metadata"]["uid"], created["metadata"]["uid"]);
    assert!(last.version() > events[0].version());
}

async fn watch_path_of_old(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("watch-path").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let from = version_of(&subject, &list).await;
    let base = format!("/api/v1/watch/namespaces/{ns}/configmaps");
    let mut all = Watch::open(admin, &format!("{base}?resourceVersion={from}")).await;
    let mut one = Watch::open(admin, &format!("{base}/b?resourceVersion={from}")).await;
    for name in ["a", "b"] {
        let body = config_map(name, json!({}), json!({}));
        admin.post(&list, &body).await.expect(201);
    }
    assert_eq!(all.take_short(2).await, ["ADDED a", "ADDED b"]);
    assert_eq!(one.take_short(1).await, ["ADDED b"]);
}

async fn finalizers_on_the_wire(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("finalize").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let mut body = config_map("a", json!({}), json!({}));
    body["metadata"]["finalizers"] = json!(["example.test/hold"]);
    let created = admin.post(&list, &body).await.expect(201);
    let path = format!("{list}?watch=1&resourceVersion={}", version(&created));
    let mut watch = Watch::open(admin, &path).await;
    admin.delete(&format!("{list}/a")).await.expect(200);
    let release = json!({"metadata": {"finalizers": null}});
    let path = format!("{list}/a");
    admin
        .patch(&path, "merge-patch+json", &release)
        .await
        .expect(200);
    assert_eq!(watch.take_short(2).await, ["MODIFIED a", "DELETED a"]);
}
