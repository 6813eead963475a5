//! The second writer: it changes the objects that the programs watch, while
//! apifront and the API server are restarted.

use http::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::program::Contents;
use crate::harness::client::Client;
use crate::harness::objects::config_map;

/// The number of changes in all.
pub const CHANGES: usize = 1000;
/// The name of the object that is written after all changes.
pub const LAST: &str = "last";
/// The number of names. Each is created, changed and deleted several times.
const NAMES: usize = 60;
const SEED: u64 = 1;
const MERGE: &str = "merge-patch+json";

pub struct Writer {
    client: Client,
    list: String,
    exists: [bool; NAMES],
    random: StdRng,
    pub written: usize,
}

impl Writer {
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            list: format!("/api/v1/namespaces/{namespace}/configmaps"),
            exists: [false; NAMES],
            random: StdRng::seed_from_u64(SEED),
            written: 0,
        }
    }

    /// Writes until `until` changes have been made in all.
    pub async fn write(&mut self, until: usize) {
        while self.written < until {
            self.change().await;
            self.written += 1;
        }
    }

    /// Makes one change: two of three of an existing object's changes are
    /// patches, the others delete it.
    async fn change(&mut self) {
        let at = self.random.random_range(0..NAMES);
        let name = format!("change-{at:02}");
        let path = format!("{}/{name}", self.list);
        let data = json!({ "n": self.written.to_string() });
        if !self.exists[at] {
            let object = config_map(&name, json!({}), data);
            self.client.post(&self.list, &object).await.expect(201);
            self.exists[at] = true;
        } else if self.random.random_range(0..3) < 2 {
            let patch = json!({ "data": data });
            self.client.patch(&path, MERGE, &patch).await.expect(200);
        } else {
            self.client.delete(&path).await.expect(200);
            self.exists[at] = false;
        }
    }

    /// Writes the last object.
    pub async fn finish(&self) {
        let last = config_map(LAST, json!({}), json!({}));
        self.client.post(&self.list, &last).await.expect(201);
    }

    /// Returns the names and versions of all objects, as a list has them.
    pub async fn truth(&self) -> Contents {
        let answer = self.client.send(Method::GET, &self.list, &[], "").await;
        let list = answer.expect(200);
        let items = list["items"].as_array().expect("items").iter();
        items
            .map(|item| {
                let field = |key: &str| item["metadata"][key].as_str().expect("text").to_owned();
                (field("name"), field("resourceVersion"))
            })
            .collect()
    }
}
