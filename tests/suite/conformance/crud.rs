//! Create, read, update and delete objects.

use serde_json::{Value, json};

use crate::harness::objects::{config_map, pod};
use crate::harness::subject::Subject;

conformance!(
    create_read_update_delete,
    generate_name,
    stale_update_conflicts,
    create_twice,
    dry_run,
    finalizers_hold_the_deletion,
    delete_collection,
    delete_preconditions,
    pod_defaults,
);

fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.expect("a resourceVersion").parse().expect("a number")
}

async fn create_read_update_delete(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("crud").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let path = format!("{list}/a");

    let created = admin
        .post(
            &list,
            &config_map("a", json!({"app": "x"}), json!({"k": "v"})),
        )
        .await
        .expect(201);
    assert_eq!(created["kind"], "ConfigMap");
    assert_eq!(created["metadata"]["namespace"], ns);
    assert!(created["metadata"]["uid"].is_string());
    assert!(created["metadata"]["creationTimestamp"].is_string());

    let mut read = admin.get(&path).await.expect(200);
    assert_eq!(read, created);

    read["data"]["k"] = json!("w");
    let updated = admin.put(&path, &read).await.expect(200);
    assert_eq!(updated["data"]["k"], "w");
    assert_eq!(updated["metadata"]["uid"], created["metadata"]["uid"]);
    assert!(version(&updated) > version(&created));

    let deleted = admin.delete(&path).await.expect(200);
    assert_eq!(deleted["kind"], "Status");
    assert_eq!(deleted["status"], "Success");
    assert_eq!(deleted["details"]["name"], "a");
    assert_eq!(deleted["details"]["kind"], "configmaps");
    assert_eq!(deleted["details"]["uid"], created["metadata"]["uid"]);

    admin
        .get(&path)
        .await
        .expect_status(404, "NotFound", "configmaps \"a\" not found");
}

async fn generate_name(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("generate").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "made-" },
    });
    let mut names = Vec::new();
    for _ in 0..2 {
        let made = admin.post(&list, &body).await.expect(201);
        let name = made["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        assert!(
            name.starts_with("made-") && name.len() == "made-".len() + 5,
            "{name}"
        );
        assert_eq!(made["metadata"]["generateName"], "made-");
        names.push(name);
    }
    assert_ne!(names[0], names[1]);
}

async fn stale_update_conflicts(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("conflict").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let path = format!("{list}/a");
    let body = config_map("a", json!({}), json!({"k": "1"}));
    let mut stale = admin.post(&list, &body).await.expect(201);
    let mut fresh = stale.clone();
    fresh["data"]["k"] = json!("2");
    admin.put(&path, &fresh).await.expect(200);
    stale["data"]["k"] = json!("3");
    let answer = admin.put(&path, &stale).await;
    let status = answer.expect_status(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; \
         please apply your changes to the latest version and try again",
    );
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "configmaps"})
    );

    // Without a version an update is unconditional.
    let unconditional = config_map("a", json!({}), json!({"k": "4"}));
    admin.put(&path, &unconditional).await.expect(200);
}

async fn create_twice(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("twice").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let body = config_map("a", json!({}), json!({}));
    admin.post(&list, &body).await.expect(201);
    let status = admin.post(&list, &body).await.expect_status(
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "configmaps"})
    );
}

async fn dry_run(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("dry").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let body = config_map("a", json!({}), json!({"k": "v"}));
    let made = admin
        .post(&format!("{list}?dryRun=All"), &body)
        .await
        .expect(201);
    assert_eq!(made["metadata"]["name"], "a");
    admin.get(&format!("{list}/a")).await.expect(404);

    admin.post(&list, &body).await.expect(201);
    let path = format!("{list}/a?dryRun=All");
    let patch = json!({"data": {"k": "w"}});
    let patched = admin.patch(&path, "merge-patch+json", &patch).await;
    assert_eq!(patched.expect(200)["data"]["k"], "w");
    admin.delete(&path).await.expect(200);
    let still = admin.get(&format!("{list}/a")).await.expect(200);
    assert_eq!(still["data"]["k"], "v");
}

async fn finalizers_hold_the_deletion(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("finalizers").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let path = format!("{list}/a");
    let mut body = config_map("a", json!({}), json!({}));
    body["metadata"]["finalizers"] = json!(["example.test/hold"]);
    let created = admin.post(&list, &body).await.expect(201);

    let deleting = admin.delete(&path).await.expect(200);
    assert_eq!(deleting["kind"], "ConfigMap");
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 0);
    let read = admin.get(&path).await.expect(200);
    assert_eq!(read["metadata"]["uid"], created["metadata"]["uid"]);
    assert!(version(&read) > version(&created));

    let release = json!({"metadata": {"finalizers": null}});
    admin
        .patch(&path, "merge-patch+json", &release)
        .await
        .expect(200);
    admin.get(&path).await.expect(404);
}

async fn delete_collection(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("collection").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let body = config_map(name, json!({"app": app}), json!({}));
        admin.post(&list, &body).await.expect(201);
    }
    let deleted = admin
        .delete(&format!("{list}?labelSelector=app%3Dx"))
        .await
        .expect(200);
    assert_eq!(deleted["kind"], "ConfigMapList");
    let items = deleted["items"].as_array().expect("items");
    assert_eq!(items.len(), 2);
    let left = admin.get(&list).await.expect(200);
    assert_eq!(left["items"].as_array().expect("items").len(), 1);
    assert_eq!(left["items"][0]["metadata"]["name"], "c");
}

async fn delete_preconditions(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("preconditions").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let path = format!("{list}/a");
    let body = config_map("a", json!({}), json!({}));
    let created = admin.post(&list, &body).await.expect(201);
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": "another" },
    });
    let headers = [("content-type", "application/json")];
    let delete =
        |options: Value| admin.send(http::Method::DELETE, &path, &headers, options.to_string());
    let uid = created["metadata"]["uid"].as_str().expect("uid");
    delete(options).await.expect_status(
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition \
             (another) does not match the UID in record ({uid}). The object might have been \
             deleted and then recreated"
        ),
    );
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
    });
    delete(options).await.expect(200);
}

async fn pod_defaults(subject: Subject) {
    let admin = &subject.admin;
    let ns = subject.namespace("pods").await;
    let list = format!("/api/v1/namespaces/{ns}/pods");
    let created = admin.post(&list, &pod("a", json!({}))).await.expect(201);
    assert_eq!(created["status"]["phase"], "Pending");
    assert_eq!(created["spec"]["restartPolicy"], "Always");

    let status = json!({"status": {"phase": "Running"}});
    let patched = admin
        .patch(&format!("{list}/a/status"), "merge-patch+json", &status)
        .await
        .expect(200);
    assert_eq!(patched["status"]["phase"], "Running");
    let read = admin.get(&format!("{list}/a/status")).await.expect(200);
    assert_eq!(
        read["metadata"]["resourceVersion"],
        patched["metadata"]["resourceVersion"]
    );
    // A pod without a node is deleted at once.
    admin
        .delete(&format!("{list}/a?gracePeriodSeconds=0"))
        .await
        .expect(200);
    admin.get(&format!("{list}/a")).await.expect(404);
}
