//! Reads and creates objects from manifests, which hold one YAML document per
//! object.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::client::Client;

pub fn parse(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|e| panic!("a manifest: {e}"))
}

/// The paths of objects. They come from an API server's discovery documents, which
/// name the resource of each kind.
pub struct Paths<'a> {
    client: &'a Client,
    resources: HashMap<String, Value>,
}

impl<'a> Paths<'a> {
    pub fn new(client: &'a Client) -> Self {
        Self {
            client,
            resources: HashMap::new(),
        }
    }

    /// Returns the path of the collection that holds `object`.
    pub async fn collection(&mut self, object: &Value) -> String {
        let version = text(object, "/apiVersion");
        let prefix = match version {
            "v1" => "/api".to_owned(),
            _ => "/apis".to_owned(),
        };
        let base = format!("{prefix}/{version}");
        if !self.resources.contains_key(version) {
            let answer = self.client.get(&base).await;
            assert_eq!(answer.status, 200, "{base}: {}", answer.text());
            self.resources.insert(version.to_owned(), answer.json());
        }
        let kind = text(object, "/kind");
        let resources = self.resources[version]["resources"].as_array();
        let resource = resources
            .into_iter()
            .flatten()
            .find(|resource| resource["kind"] == kind && !text(resource, "/name").contains('/'));
        let resource = resource.unwrap_or_else(|| panic!("no resource of {version} {kind}"));
        let name = text(resource, "/name");
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{base}/namespaces/{namespace}/{name}"),
            None => format!("{base}/{name}"),
        }
    }
}

pub async fn create(admin: &Client, objects: &[Value]) {
    let mut paths = Paths::new(admin);
    for object in objects {
        let collection = paths.collection(object).await;
        let answer = admin.post(&collection, object).await;
        assert_eq!(answer.status, 201, "{collection}: {}", answer.text());
    }
}

/// Sets the statuses of existing objects from their manifests, where these have one.
pub async fn patch_statuses(admin: &Client, objects: &[Value]) {
    let mut paths = Paths::new(admin);
    for object in objects {
        let collection = paths.collection(object).await;
        let path = format!("{collection}/{}/status", text(object, "/metadata/name"));
        let Some(status) = object.get("status") else {
            continue;
        };
        let body = json!({ "status": status });
        let answer = admin.patch(&path, "merge-patch+json", &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no {pointer} in {object}"))
}
