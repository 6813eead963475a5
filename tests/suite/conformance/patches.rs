//! Patches of every type.

use serde_json::json;

use crate::harness::objects::{config_map, pod};
use crate::harness::subject::Subject;

conformance!(
    merge_patch,
    json_patch,
    json_patch_that_does_not_fit,
    strategic_merge_patch,
    apply,
    unknown_patch_type,
    patch_with_a_stale_version,
);

async fn merge_patch(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("merge").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let body = config_map("a", json!({"l": "1"}), json!({"keep": "1", "drop": "2"}));
    admin.post(&list, &body).await.expect(201);
    let patch = json!({"data": {"drop": null, "new": "3"}});
    let patched = admin
        .patch(&format!("{list}/a"), "merge-patch+json", &patch)
        .await
        .expect(200);
    assert_eq!(patched["data"], json!({"keep": "1", "new": "3"}));
    assert_eq!(patched["metadata"]["labels"], json!({"l": "1"}));
    admin
        .patch(&format!("{list}/none"), "merge-patch+json", &patch)
        .await
        .expect_status(404, "NotFound", "configmaps \"none\" not found");
}

async fn json_patch(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("json-patch").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let body = config_map("a", json!({}), json!({"x": "1"}));
    admin.post(&list, &body).await.expect(201);
    let patch = json!([
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "add", "path": "/data/y", "value": "3"},
    ]);
    let patched = admin
        .patch(&format!("{list}/a"), "json-patch+json", &patch)
        .await
        .expect(200);
    assert_eq!(patched["data"], json!({"x": "2", "y": "3"}));
}

async fn json_patch_that_does_not_fit(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("json-patch").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let body = config_map("a", json!({}), json!({"x": "1"}));
    admin.post(&list, &body).await.expect(201);
    let patch = json!([{"op": "test", "path": "/data/x", "value": "9"}]);
    let status = admin
        .patch(&format!("{list}/a"), "json-patch+json", &patch)
        .await
        .expect(422);
    assert_eq!(status["reason"], "Invalid");
    let patch = json!({"op": "not a list"});
    let status = admin
        .patch(&format!("{list}/a"), "json-patch+json", &patch)
        .await
        .expect(400);
    assert_eq!(status["reason"], "BadRequest");
}

async fn strategic_merge_patch(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("strategic").await;
    let list = format!("/api/v1/namespaces/{ns}/pods");
    admin.post(&list, &pod("a", json!({}))).await.expect(201);
    // Containers merge by name.
    let patch =
        json!({"spec": {"containers": [{"name": "main", "image": "example.test/image:2"}]}});
    let patched = admin
        .patch(&format!("{list}/a"), "strategic-merge-patch+json", &patch)
        .await
        .expect(200);
    let containers = patched["spec"]["containers"]
        .as_array()
        .expect("containers");
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0]["image"], "example.test/image:2");
    assert_eq!(
        containers[0]["terminationMessagePath"],
        "/dev/termination-log"
    );
}

async fn apply(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("apply").await;
    let path = format!("/api/v1/namespaces/{ns}/configmaps/a");
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"},
    });
    let applied = admin
        .patch(
            &format!("{path}?fieldManager=one"),
            "apply-patch+yaml",
            &body,
        )
        .await
        .expect(201);
    assert_eq!(applied["metadata"]["managedFields"][0]["manager"], "one");
    assert_eq!(
        applied["metadata"]["managedFields"][0]["operation"],
        "Apply"
    );
    let mut other = body.clone();
    other["data"]["k"] = json!("2");
    let conflict = admin
        .patch(
            &format!("{path}?fieldManager=two"),
            "apply-patch+yaml",
            &other,
        )
        .await
        .expect(409);
    assert_eq!(conflict["reason"], "Conflict");
    assert_eq!(
        conflict["details"]["causes"][0]["reason"],
        "FieldManagerConflict"
    );
    let forced = format!("{path}?fieldManager=two&force=true");
    let applied = admin.patch(&forced, "apply-patch+yaml", &other).await;
    assert_eq!(applied.expect(200)["data"]["k"], "2");
}

async fn unknown_patch_type(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("patch-type").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let body = config_map("a", json!({}), json!({}));
    admin.post(&list, &body).await.expect(201);
    admin
        .patch(&format!("{list}/a"), "json", &json!({}))
        .await
        .expect_status(415, "UnsupportedMediaType", "415: Unsupported Media Type");
}

async fn patch_with_a_stale_version(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("stale-patch").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let path = format!("{list}/a");
    let body = config_map("a", json!({}), json!({}));
    let created = admin.post(&list, &body).await.expect(201);
    let change = json!({"data": {"k": "1"}});
    admin
        .patch(&path, "merge-patch+json", &change)
        .await
        .expect(200);
    let version = &created["metadata"]["resourceVersion"];
    let stale = json!({"metadata": {"resourceVersion": version}, "data": {"k": "2"}});
    let status = admin
        .patch(&path, "merge-patch+json", &stale)
        .await
        .expect(409);
    assert_eq!(status["reason"], "Conflict");
}
