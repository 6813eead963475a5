//! Clients write what they have read without managedFields, and the API server keeps
//! them: each step is done twice, by a client that reads whole objects and by one that a
//! rule names.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{DROPPED, SHAPE, SOON, Who, World, managers};
use crate::harness::client::{Answer, Client};
use crate::harness::eventually;
use crate::harness::objects::{widget, widget_definition};

const GROUP: &str = "shapes.test";

/// An object that one client reads and writes.
struct Written {
    client: Client,
    path: String,
    is_shaped: bool,
}

impl Written {
    /// Reads the object from the cache.
    async fn read(&self) -> Value {
        let expected = if self.is_shaped { DROPPED } else { "" };
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let answer = self.client.get(&self.path).await;
            if answer.status == 200 && answer.header(SHAPE) == expected {
                let object = answer.json();
                let has = object["metadata"]["managedFields"].is_array();
                assert_eq!(has, !self.is_shaped, "{object}");
                return object;
            }
            assert!(tokio::time::Instant::now() < deadline, "{answer:?}");
            crate::harness::pace::of_tries(Duration::from_millis(50)).await;
        }
    }

    fn by(&self, manager: &str) -> String {
        format!("{}?fieldManager={manager}", self.path)
    }

    /// Replaces the object by what was read and changed.
    async fn replace(&self, manager: &str, change: fn(&mut Value)) {
        let mut object = self.read().await;
        change(&mut object);
        let path = self.by(manager);
        self.client.put(&path, &object).await.expect(200);
    }

    async fn replace_status(&self, manager: &str, change: fn(&mut Value)) {
        let mut object = self.read().await;
        change(&mut object);
        let path = format!("{}/status?fieldManager={manager}", self.path);
        self.client.put(&path, &object).await.expect(200);
    }

    async fn patch(&self, manager: &str, kind: &str, patch: &Value) {
        let path = self.by(manager);
        self.client.patch(&path, kind, patch).await.expect(200);
    }

    /// Applies an object that was read, in its whole.
    async fn apply_read(&self, manager: &str, change: fn(&mut Value)) -> Answer {
        let mut object = self.read().await;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            // An applied object must not have them.
            metadata.remove("managedFields");
        }
        change(&mut object);
        let path = format!("{}&force=true", self.by(manager));
        self.client.patch(&path, "apply-patch+yaml", &object).await
    }
}

/// The steps, each with a manager of its own.
async fn step(number: usize, written: &Written) -> bool {
    match number {
        0 => {
            written
                .replace("replacer", |object| match object["kind"] == "Widget" {
                    true => object["spec"]["size"] = json!(3),
                    false => object["spec"]["replicas"] = json!(3),
                })
                .await;
        }
        1 => {
            let patch = json!({ "metadata": { "annotations": { "by": "merge" } } });
            written.patch("merger", "merge-patch+json", &patch).await;
        }
        2 => {
            let patch = json!([
                { "op": "add", "path": "/metadata/annotations/json", "value": "yes" },
            ]);
            written.patch("patcher", "json-patch+json", &patch).await;
        }
        3 => {
            let applied = json!({
                "apiVersion": written.read().await["apiVersion"],
                "kind": written.read().await["kind"],
                "metadata": { "name": written.read().await["metadata"]["name"],
                    "labels": { "applied": "yes" } },
            });
            written.patch("applier", "apply-patch+yaml", &applied).await;
        }
        4 => {
            written
                .replace_status("of-status", |object| match object["kind"] == "Widget" {
                    true => object["status"] = json!({ "ready": true }),
                    false => object["status"]["observedGeneration"] = json!(1),
                })
                .await;
        }
        // A client that writes a merge patch that says there are no managers.
        5 => {
            let patch = json!({ "metadata": {
                "managedFields": null, "annotations": { "by": "nobody" },
            } });
            written.patch("nuller", "merge-patch+json", &patch).await;
        }
        6 => {
            written
                .replace("merger", |object| {
                    object["metadata"]["annotations"]["by"] = json!("the merger again");
                })
                .await;
        }
        // Nothing changes.
        7 => written.replace("reader", |_| {}).await,
        8 => {
            let applied = written
                .apply_read("whole-applier", |object| {
                    object["metadata"]["labels"]["applied"] = json!("whole");
                    let metadata = object["metadata"].as_object_mut().expect("metadata");
                    metadata.remove("resourceVersion");
                })
                .await;
            applied.expect(200);
        }
        9 => {
            written
                .replace("replacer", |object| {
                    let metadata = object["metadata"].as_object_mut().expect("metadata");
                    metadata.remove("annotations");
                })
                .await;
        }
        _ => return false,
    }
    true
}

async fn compare(world: &World, objects: [Written; 2]) {
    let admin = world.cluster.admin_client();
    let (mut number, mut most) = (0, 0);
    loop {
        let mut steps = [false; 2];
        for (written, done) in objects.iter().zip(&mut steps) {
            *done = step(number, written).await;
        }
        let paths = objects.each_ref().map(|written| written.path.clone());
        let (whole, shaped) = (
            managers(&admin, &paths[0]).await,
            managers(&admin, &paths[1]).await,
        );
        assert!(!whole.is_empty());
        assert_eq!(shaped, whole, "step {number} of {paths:?}");
        most = most.max(whole.len());
        if steps == [false; 2] {
            break;
        }
        number += 1;
    }
    assert!(most >= 6, "{most} managers");
    for written in &objects {
        let version = &written.read().await["metadata"]["resourceVersion"];
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": { "resourceVersion": version },
        });
        let headers = [("content-type", "application/json")];
        let text = body.to_string();
        let deleted = written
            .client
            .send(Method::DELETE, &written.path, &headers, text)
            .await;
        deleted.expect(200);
    }
}

async fn created(world: &World, list: &str, object: fn(&str) -> Value) -> [Written; 2] {
    let mut written = Vec::new();
    for (who, name, is_shaped) in [
        (Who::Ann, "whole", false),
        (Who::AnnByAgent, "shaped", true),
    ] {
        let client = world.client(who);
        let path = format!("{list}?fieldManager=creator");
        client.post(&path, &object(name)).await.expect(201);
        written.push(Written {
            client,
            path: format!("{list}/{name}"),
            is_shaped,
        });
    }
    written.try_into().unwrap_or_else(|_| panic!("two objects"))
}

#[tokio::test]
async fn built_in_objects_keep_their_managers() {
    skip_under_oracle!("kube-apiserver has no such configuration");
    let world = World::start(|_| {}).await;
    let objects = created(&world, &world.path("deployments"), super::deployment).await;
    compare(&world, objects).await;
    world.front.stop().await;
}

#[tokio::test]
async fn custom_resources_keep_their_managers() {
    skip_under_oracle!("kube-apiserver has no such configuration");
    let world = World::start(|_| {}).await;
    let admin = world.cluster.admin_client();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = widget_definition(GROUP);
    admin.post(definitions, &definition).await.expect(201);
    let list = format!("/apis/{GROUP}/v1/namespaces/{}/widgets", world.namespace);
    eventually("served widgets", SOON, async || {
        admin.get(&list).await.status == 200
    })
    .await;
    world.front.warm(&world.front.admin_client(), &list).await;
    let objects = created(&world, &list, |name| widget(GROUP, name, "red", 1)).await;
    compare(&world, objects).await;
    world.front.stop().await;
}
