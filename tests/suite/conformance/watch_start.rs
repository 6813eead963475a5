//! Watches that begin with the state: at version 0, without a version, and with
//! initial events.

use std::time::Duration;

use serde_json::json;

use crate::harness::cluster::unique;
use crate::harness::eventually;
use crate::harness::objects::{config_map, widget, widget_definition};
use crate::harness::release::expect_no_watch_list;
use crate::harness::subject::Subject;
use crate::harness::watch::{End, Watch};

conformance!(
    version_zero_begins_with_the_state,
    no_version_begins_with_the_state,
    initial_events_end_with_a_bookmark,
    initial_events_can_be_declined,
    future_version_waits_in_silence,
    initial_events_of_a_future_version_fail;
    before etcd: too_old_is_an_error_event
);

async fn prepared(subject: &Subject, purpose: &str) -> String {
    let ns = subject.namespace(purpose).await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    for name in ["b", "a"] {
        let body = config_map(name, json!({}), json!({}));
        subject.admin.post(&list, &body).await.expect(201);
    }
    // Version 0 shows whatever the cache holds, so the test waits until the
    // cache holds both objects.
    eventually("the cache has both", Duration::from_secs(10), || async {
        let found = subject
            .admin
            .get(&format!("{list}?resourceVersion=0"))
            .await;
        found.expect(200)["items"]
            .as_array()
            .is_some_and(|i| i.len() == 2)
    })
    .await;
    list
}

async fn version_zero_begins_with_the_state(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "zero").await;
    let mut watch = Watch::open(admin, &format!("{list}?watch=1&resourceVersion=0")).await;
    assert_eq!(watch.take_short(2).await, ["ADDED a", "ADDED b"]);
    let body = config_map("c", json!({}), json!({}));
    admin.post(&list, &body).await.expect(201);
    assert_eq!(watch.take_short(1).await, ["ADDED c"]);
}

async fn no_version_begins_with_the_state(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "unset").await;
    let body = config_map("c", json!({}), json!({}));
    admin.post(&list, &body).await.expect(201);
    let mut watch = Watch::open(admin, &format!("{list}?watch=1")).await;
    // A watch without a version begins with the most recent state, which includes
    // the last write.
    assert_eq!(watch.take_short(3).await, ["ADDED a", "ADDED b", "ADDED c"]);
    admin.delete(&format!("{list}/c")).await.expect(200);
    assert_eq!(watch.take_short(1).await, ["DELETED c"]);
}

async fn initial_events_end_with_a_bookmark(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "initial").await;
    let body = config_map("c", json!({}), json!({}));
    let created = admin.post(&list, &body).await.expect(201);
    for version in ["&resourceVersion=0", ""] {
        let path = format!(
            "{list}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &allowWatchBookmarks=true{version}"
        );
        if !subject.has_watch_list() {
            expect_no_watch_list(admin, &path).await;
            continue;
        }
        let mut watch = Watch::open(admin, &path).await;
        let mut names = Vec::new();
        let bookmark = loop {
            let event = watch.next().await.expect("an event");
            if event.kind == "BOOKMARK" {
                break event;
            }
            assert_eq!(event.kind, "ADDED");
            names.push(event.name().to_owned());
        };
        if version.is_empty() {
            assert_eq!(names, ["a", "b", "c"]);
            let at: u64 = created["metadata"]["resourceVersion"]
                .as_str()
                .and_then(|v| v.parse().ok())
                .expect("version");
            assert!(bookmark.version() >= at);
        }
        let mut annotations = bookmark.object["metadata"]["annotations"].clone();
        let blueprint = "kubernetes.io/initial-events-list-blueprint";
        let annotations = annotations.as_object_mut().expect("annotations");
        // 1.32 adds an empty list to the annotation.
        let has_blueprint = annotations.remove(blueprint).is_some();
        let adds = subject.release.has_watch_list() && !subject.release.is_at_least(34);
        assert_eq!(has_blueprint, adds);
        assert_eq!(
            json!(annotations),
            json!({"k8s.io/initial-events-end": "true"})
        );
        assert_eq!(bookmark.object["kind"], "ConfigMap");
        assert!(bookmark.object.get("data").is_none());
    }
}

async fn initial_events_can_be_declined(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "declined").await;
    let path = format!("{list}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
    if !subject.has_watch_list() {
        return expect_no_watch_list(admin, &path).await;
    }
    let mut watch = Watch::open(admin, &path).await;
    let body = config_map("c", json!({}), json!({}));
    admin.post(&list, &body).await.expect(201);
    assert_eq!(watch.take_short(1).await, ["ADDED c"]);
}

/// A resource that was just created has no history at version 1.
async fn too_old_is_an_error_event(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("too-old").await;
    let group = format!("{}.example.test", unique("old"));
    let list = format!("/apis/{group}/v1/namespaces/{ns}/widgets");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin
        .post(definitions, &widget_definition(&group))
        .await
        .expect(201);
    eventually(
        "the resource is served",
        Duration::from_secs(30),
        || async { admin.get(&list).await.status == 200 },
    )
    .await;
    admin
        .post(&list, &widget(&group, "a", "red", 1))
        .await
        .expect(201);
    let mut watch = Watch::open(admin, &format!("{list}?watch=1&resourceVersion=1")).await;
    let error = watch.next().await.expect("an event");
    assert_eq!(error.kind, "ERROR");
    assert_eq!(error.object["kind"], "Status");
    assert_eq!(error.object["code"], 410);
    assert_eq!(error.object["reason"], "Expired");
    let message = error.object["message"].as_str().expect("message");
    assert!(
        message.starts_with("too old resource version: 1 ("),
        "{message}"
    );
    assert_eq!(watch.next().await.err(), Some(End::Clean));
}

async fn future_version_waits_in_silence(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "future").await;
    let path = format!("{list}?watch=1&resourceVersion=999999999&timeoutSeconds=2");
    let mut watch = Watch::open(admin, &path).await;
    let body = config_map("c", json!({}), json!({}));
    admin.post(&list, &body).await.expect(201);
    let (events, end) = watch.rest().await;
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(end, End::Clean);
}

async fn initial_events_of_a_future_version_fail(subject: Subject) {
    let admin = &subject.admin;
    let list = prepared(&subject, "future").await;
    let path = format!(
        "{list}?watch=1&resourceVersion=999999999&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan"
    );
    if !subject.release.has_watch_list() {
        return expect_no_watch_list(admin, &path).await;
    }
    let mut watch = Watch::open(admin, &path).await;
    let error = watch.next().await.expect("an event");
    assert_eq!(error.kind, "ERROR");
    assert_eq!(error.object["code"], 504);
    let cause = &error.object["details"]["causes"][0]["reason"];
    assert_eq!(cause, "ResourceVersionTooLarge");
    assert_eq!(watch.next().await.err(), Some(End::Clean));
}
